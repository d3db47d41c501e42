"""Decodes files of each format into blocks of rows: one module per format, one port for all."""
