"""The torch side of the towers; imported by the factories' `create` and by nobody else."""
