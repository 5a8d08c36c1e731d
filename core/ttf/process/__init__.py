"""Child processes: how they are started, talked to, watched and ended; signals."""
