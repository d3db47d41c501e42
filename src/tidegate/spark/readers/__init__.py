"""Readers of column sources on Spark."""
