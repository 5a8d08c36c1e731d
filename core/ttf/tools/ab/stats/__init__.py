"""The statistics of `ttf ab`: pure functions of numbers, which know neither runs nor files.

numpy at most; the tests hold each piece against scipy.
"""
