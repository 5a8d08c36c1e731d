"""Several processes that train one run together: who adds what, in which order, and who decides."""
