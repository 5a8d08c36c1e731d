"""What studies made of many short `ttf train` runs share: the runs, their folder, child processes."""
