"""Ways here from other systems."""
