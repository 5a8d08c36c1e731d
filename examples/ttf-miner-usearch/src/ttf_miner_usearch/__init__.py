"""A miner for `ttf` on usearch's graph, found through its entry point."""
