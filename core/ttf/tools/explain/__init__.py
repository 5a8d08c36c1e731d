"""One Markdown page per incident class, for the person whose process has died.

`pages.py` puts a page together (the text beside it, and the rows of the table of causes that lead to
its class), `evidence.py` words those rows, `markdown.py` shows Markdown on a terminal.
"""
