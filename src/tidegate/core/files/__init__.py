"""File sources: paths, state, advance, planner, and path sets."""
