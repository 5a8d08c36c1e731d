"""What plugin authors use: a scaffold, and the conformance suites on an installed plugin."""
