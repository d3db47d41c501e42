"""Column sources as DataFrames: one module per kind, all behind the port of :mod:`tidegate.sources.reading`."""
