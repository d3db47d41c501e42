"""Spark: the session, and the lane that runs units as tasks. The only package that imports pyspark."""
