"""A run within `memory.limit`: cut before the start, then governed in mid-run."""
