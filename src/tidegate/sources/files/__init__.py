"""Files below a prefix of a store."""
