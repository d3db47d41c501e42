"""Writes rows into rolling Parquet files: partitions, statistics, names, and uploads in bounded memory."""
