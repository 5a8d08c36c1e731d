"""The two-pass scan of a bank: a bfloat16 product first, float32 for what it cannot rule out."""
