"""The encoder `your-name` for ttf: `plugin` is what ttf imports, `_model` makes vectors of texts."""
