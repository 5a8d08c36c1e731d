"""The exporter `your-name` for ttf: `plugin` is what ttf imports, `_format` does the work."""
