"""Checks whether this machine, this environment and this configuration are safe. One file per
group.

Whatever needs torch, numpy, pydantic or a third-party plugin runs in a throw-away process: an abort
there becomes a finding and does not end the doctor.
"""
