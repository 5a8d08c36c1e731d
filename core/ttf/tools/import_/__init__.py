"""`ttf data import`: vectors from containers of others into .npy folders that ttf maps.

inputs      a file or server -> named columns, read by blocks
roles       which columns are vectors, ids, queries, positives
carry_out   block by block into DIR/.import, verified, then to their final names
"""
