"""What this machine has and allows: memory and its limits, devices, processor, measured ceilings."""
