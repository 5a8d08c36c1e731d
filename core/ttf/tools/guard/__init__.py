"""One foreign command under watch: `ttf guard -- COMMAND`.

ttf guard ──────────────────────────────> COMMAND (own process group, stdin and stdout as given)
  │  terminal.py      lends it the foreground    │ stderr: a pipe, or a pty if ours is a terminal
  │  stderr_relay.py  <──────────────────────────┘ kept, and passed on byte for byte
  │  stacks.py        <── site/sitecustomize.py in every Python it starts: faulthandler, notes of start, words and end
  │  activity.py      is there I/O? is it computing, idle, stopped?
  │  pythons.py       its Python processes: where they write, what they said, how they ended
  │  outputs.py       files behind their descriptors and pipes; blame.py: which of them explains the end
  │  deaths.py        what is known of each death, once the command has ended
  │  running_command.py   one start of it, from start to end; ttf.incidents explains the end
  └  run.py           restarts, the folder, the exit code
"""
