"""The command line: thin commands over the public functions, and pages that show what those give back."""
