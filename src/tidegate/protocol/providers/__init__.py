"""Metadata providers: who else keeps the watermarks of column sources, as text."""
