"""`ttf ab`: is configuration B really stabler, faster, leaner or better than A, or was it luck?"""
