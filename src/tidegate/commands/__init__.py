"""One module per use case: the functions behind the command line and the Python API."""
