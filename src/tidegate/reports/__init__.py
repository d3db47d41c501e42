"""The results of commands, as frozen values."""
