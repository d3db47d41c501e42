"""The outside world: clients and discovery, one module or folder per kind of source."""
