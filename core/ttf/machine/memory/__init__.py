"""Memory of a process and all it started, and the limits in force."""
