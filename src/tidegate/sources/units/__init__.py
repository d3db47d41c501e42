"""Work units: what a task is told of one, and what it gives back."""
