"""Readers of column sources, by Spark."""
