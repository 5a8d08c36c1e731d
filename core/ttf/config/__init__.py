"""The configuration: its keys (`schema`), its layers (`resolve`) and its file (`files`)."""
