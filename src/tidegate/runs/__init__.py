"""The walk: one pass over a source, the loop of passes, trackers, staged delivery, reconcile, maintenance."""
