"""The storage `your-name` for ttf: `plugin` is what ttf imports, `_reader` and `_writer` work."""
