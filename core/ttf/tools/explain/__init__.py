"""One Markdown page per incident class, for users whose process has died.

`pages.py` puts a page together from its text and the rows of the table of causes for its class,
`evidence.py` puts these rows into words, `markdown.py` shows Markdown on a terminal.
"""
