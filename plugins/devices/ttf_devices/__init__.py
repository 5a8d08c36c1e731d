"""The built-in devices of `ttf`, each found through its entry point like anybody's plugin."""
