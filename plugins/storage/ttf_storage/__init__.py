"""The built-in storage of `ttf`, each found through its entry point like anybody's plugin."""
