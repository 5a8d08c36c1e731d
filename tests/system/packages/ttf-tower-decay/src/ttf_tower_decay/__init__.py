"""A tower for `ttf`, found through its entry point."""
