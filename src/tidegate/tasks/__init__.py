"""What runs on workers: reads files, rows or work units, checks every record, and hands finished files over."""
