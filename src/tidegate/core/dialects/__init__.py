"""The facts of databases, a module each: SQL, types, addresses, sessions, drivers, and the words of their errors."""
