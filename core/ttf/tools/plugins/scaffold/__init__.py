"""`ttf plugins new`: writes a package for a third-party plugin."""
