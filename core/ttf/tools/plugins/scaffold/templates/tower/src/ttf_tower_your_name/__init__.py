"""The tower `your-name` for ttf: `plugin` is what ttf imports, `_module` is the network."""
