"""The built-in miners of `ttf`, each found through its entry point like anybody's plugin."""
