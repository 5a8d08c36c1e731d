"""The built-in encoders of `ttf`, each found through its entry point like anybody's plugin."""
