"""The parent of a training process: starts it, watches it, and brings it back. Light: never torch,
numpy or pydantic."""
