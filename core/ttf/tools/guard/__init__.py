"""One foreign command under watch: `ttf guard -- COMMAND`.

ttf guard ──────────────────────────────> COMMAND (own process group, stdin and stdout as given)
  │  terminal.py      lends it the foreground    │ stderr: a pipe, or a pty if ours is a terminal
  │  stderr_relay.py  <──────────────────────────┘ kept, and passed on byte for byte
  │  stacks.py        <── site/sitecustomize.py in every Python it starts: faulthandler, a last note
  │  activity.py      is there I/O? is it computing, idle, stopped?
  │  running_command.py   one start of it, from start to end; ttf.incidents explains the end
  └  run.py           restarts, the folder, the exit code
"""
