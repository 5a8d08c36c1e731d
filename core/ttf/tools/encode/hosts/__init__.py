"""`ttf data encode` on several hosts: a ticket is a block of texts, and its vectors come back as bytes.

Every host reads the same inputs and has the same encoder; where blocks begin depends on the texts
alone, so a block is known by the kind of text and its first row. `shared` is node 0: it puts the
blocks into the arrays of one host, in their order. `other` is the end of the other nodes,
`block_process` runs the encoder, `worker` is in its process, `loose` keeps blocks that came early.
"""
