"""A run on several hosts: their supervisors talk to each other, and that of node 0 decides."""
