"""`ttf mine`: a table of candidates for the queries of a file or of a finished run."""
