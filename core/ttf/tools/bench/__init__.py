"""This machine's ceilings, and how near the program comes to them."""
