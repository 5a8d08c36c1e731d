"""`ttf bisect`: which ingredient of a crashing configuration is the culprit?"""
