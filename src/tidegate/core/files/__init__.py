"""File sources: paths, state, advance, planner, and the set of paths."""
