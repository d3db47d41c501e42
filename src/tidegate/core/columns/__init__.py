"""Column sources: state, look-back, predicates, planner, replay."""
