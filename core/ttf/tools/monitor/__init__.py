"""A live view of a run folder or of any process, from outside: files and /proc are only read.

`what_to_watch.py` finds what to look at, `watch.py` looks at it (processes, limits, the run's files) and
makes a `View`; `page.py` lays one out for a screen, `screen.py` keeps it there, `lines.py` writes
one line an interval where nobody looks at a screen.
"""
