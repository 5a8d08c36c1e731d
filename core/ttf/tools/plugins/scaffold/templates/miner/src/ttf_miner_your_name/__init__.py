"""The miner `your-name` for ttf: `plugin` is what ttf imports, `_index` does the work."""
