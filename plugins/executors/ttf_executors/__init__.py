"""The built-in executors of `ttf`, each found through its entry point like anybody's plugin."""
