"""A study of `ttf ab` on several hosts: a ticket is a block, and all arms of a block run on one host.

`node0` owns the study and gives blocks out, `other` is the end of the other nodes; `blocks` says who
does which block, `runner` runs repeats, `wire` is what both ends say of them, `alike` what they
compare first.
"""
