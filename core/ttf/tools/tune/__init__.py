"""`ttf tune`: looks for a better configuration within a time, and trains it.

`study.py` has the folder and decides what is next, `facts.py` looks at configuration and data,
`space.py` says what may vary, `search.py` asks Optuna, `runs.py` is one trial, `time_left.py` the
arithmetic of the budget, `last_run.py` the run at the end.
"""
