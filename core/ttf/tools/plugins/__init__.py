"""Tools for plugin authors: a scaffold, and the conformance suites for an installed plugin."""
