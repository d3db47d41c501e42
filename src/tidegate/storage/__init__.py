"""Object storage behind one port: local directories, S3, GCS, Azure, and a twin in memory."""
