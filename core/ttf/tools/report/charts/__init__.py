"""Charts for pages, as data: `templates/pieces.html` writes them as SVG."""
