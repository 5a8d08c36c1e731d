"""Facts about this machine: memory and its limits, devices, processor, measured ceilings."""
