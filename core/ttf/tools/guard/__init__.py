"""One foreign command under watch: `ttf guard -- COMMAND`.

ttf guard ──────────────────────────────> COMMAND (own process group, stdin and stdout as given)
  │  terminal.py      lends it the foreground    │ stderr: a pipe, or a pty where ours is a terminal
  │  stderr_relay.py  <──────────────────────────┘ kept, and passed on byte for byte
  │  stacks.py        <── site/sitecustomize.py in every Python it starts: faulthandler, a last note
  │  activity.py      is anything written or read? is it computing, idle, stopped?
  │  running_command.py   one start of it, from start to end; ttf.incidents is asked what the end was
  └  run.py           again or not, the folder, the exit code
"""
