"""The correction for hubs: what it is computed from, how its strength is chosen, where it is stored.

score'(q, d) = q.d - a * h(d), where h(d) is the mean of the largest similarities of d to a sample of
training queries, without the queries whose known positive is d.
"""
