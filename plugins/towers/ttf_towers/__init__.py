"""The built-in towers of `ttf`, each found through its entry point like anybody's plugin."""
