"""The built-in exporters of `ttf`, each found through its entry point like anybody's plugin."""
