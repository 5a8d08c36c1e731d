"""The plugin host: installed plugins (from metadata), loading one by name, plugin options."""
