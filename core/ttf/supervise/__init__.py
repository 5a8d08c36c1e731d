"""The parent of a training process: starts, watches and restarts it. Never imports torch, numpy or
pydantic."""
