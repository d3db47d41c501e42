"""How a batch gets into the table: one strategy per load type, each one Spark statement and one Delta commit."""
