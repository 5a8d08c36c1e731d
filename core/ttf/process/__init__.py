"""Child processes: start, messages, watching, end. Also signals."""
