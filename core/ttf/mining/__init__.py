"""Hard negatives: candidate tables, the draw from them, and the miners behind a process wall."""
