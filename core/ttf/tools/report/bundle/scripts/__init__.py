"""Reproducers as plain scripts: each runs as it is, and gets the settings of a run."""
