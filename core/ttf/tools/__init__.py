"""Tools around training: diagnosis, comparison, benchmarks, monitoring, plugins."""
