"""The statistics of `ttf ab`: pure functions of numbers, without runs and files.

Only numpy; the tests compare each function with scipy.
"""
