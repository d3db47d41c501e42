"""Events as values, and their consumers."""
