"""Storages for `ttf`, found through their entry points."""
