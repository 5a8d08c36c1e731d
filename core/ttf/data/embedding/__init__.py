"""A trainable table of vectors that may be larger than memory: hot rows in memory, all rows in a
file, changes in a journal until they are applied. `table.EmbeddingTable` is the public face."""
