"""`ttf plugins check`: the conformance suite for an installed plugin, in child processes."""
