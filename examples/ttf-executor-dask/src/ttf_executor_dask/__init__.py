"""An executor for `ttf` on dask.distributed, found through its entry point."""
