"""A storage for `ttf`, found through its entry point."""
