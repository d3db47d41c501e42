"""Carries plans out: one pass over a source, polling, inspection without moving data, the demo."""
