"""The plugin host: who is installed (from metadata), loading the one that is asked for, their options."""
