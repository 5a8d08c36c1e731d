"""One run: towers, loss, steps, refreshes, evaluation, checkpoints, from a folder to a summary."""
