"""Columns: declared types, their Arrow form, how a table may evolve, and inference from samples."""
