"""The device `your-name` for ttf: `plugin` is what ttf imports, `_policy` drives the hardware."""
