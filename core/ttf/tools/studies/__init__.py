"""The engine of every study: many `ttf train` runs that answer one question together.

`study.py` has the folder and its journal, `carry_out.py` does the missing runs, `one_run.py` is one
run and its result, `child.py` asks a process that may die. A command adds a `Study` (the setup and
the lines of the journal) and a `Planner` (which run is next).
"""
