"""The built-in observers of `ttf`, each found through its entry point like anybody's plugin."""
