"""Reproducers as plain scripts: each runs as it stands, and is filled with a run's settings."""
