"""`ttf plugins new`: a package of its own for a plugin that somebody else writes."""
