"""The engine under every study: many `ttf train` runs that answer one question together.

`study.py` is the folder and its journal, `carry_out.py` runs what is missing, `one_run.py` is one
run and what its end means, `child.py` asks a process that may die. A command adds a `Study` (what is asked, what a
line of the journal holds) and a `Planner` (what is run next).
"""
