"""Memory of a process and its descendants, and the limits in force."""
