"""From source files to finished Parquet files: decompress, decode and check, partition, roll, describe."""
