"""The command line: thin commands over the public functions, and pages that show their results."""
