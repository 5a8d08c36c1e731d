"""From what is left of a dead process to a named cause: evidence, class, remedies, files.

Light: the supervisor uses it, and so does whoever guards a stranger's process.
"""
