"""A live view of a run folder or of any process, from outside: only reads files and /proc.

`what_to_watch.py` finds the target, `watch.py` reads its processes, limits and files and makes a
`View`. `page.py` lays a view out for a screen, `screen.py` draws it, `lines.py` writes one line per
interval if the output is no terminal.
"""
