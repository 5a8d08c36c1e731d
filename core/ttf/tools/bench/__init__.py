"""The ceilings of this machine, and how near the program comes to them."""
