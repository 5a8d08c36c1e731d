"""`ttf init`: looks at what lies in a folder, and writes a run.toml for it."""
