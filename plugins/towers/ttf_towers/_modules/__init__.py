"""The torch modules of the towers. Imported only in `create` of the factories."""
