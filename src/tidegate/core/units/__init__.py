"""Work units: time bounds, partitions, state, planner."""
