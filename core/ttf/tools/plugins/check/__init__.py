"""`ttf plugins check`: the conformance suite on an installed plugin, in child processes."""
