"""Spark: the session, the engine, readers and load strategies. The only package that imports pyspark."""
