"""Runs side by side: which there are, what one is, where some of them differ."""
