"""Text for people: numbers and sizes, wrapping, tables, progress."""
