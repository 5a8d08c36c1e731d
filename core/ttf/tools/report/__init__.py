"""What a user keeps or sends of a run: the HTML page and the redacted bundle."""
