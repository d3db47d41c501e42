"""What happened, as values: events and their consumers."""
