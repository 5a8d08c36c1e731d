"""Charts as data: `templates/pieces.html` writes them as SVG."""
