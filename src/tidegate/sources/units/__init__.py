"""Work units: the input and the results of their tasks."""
