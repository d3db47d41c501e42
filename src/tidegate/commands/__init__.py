"""One module per use case: what the command line and the Python interface do."""
