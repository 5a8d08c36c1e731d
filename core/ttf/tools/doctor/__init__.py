"""Is this machine, this environment and this configuration safe? Checks, one file per group.

Light: what needs torch, numpy, pydantic or a stranger's plugin runs in a throw-away process, so
that an abort there is a finding and not the end of the doctor.
"""
