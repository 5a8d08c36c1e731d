"""`ttf doctor --peers`: the nodes of a run meet before step 1, and compare themselves."""
