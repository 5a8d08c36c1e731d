"""What stands beside training: why did it die, which is better, how fast is this machine."""
