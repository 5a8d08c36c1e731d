"""A run's folder on disk: durable writing, and the files that a run leaves."""
