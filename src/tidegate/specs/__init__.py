"""What was asked for, as frozen values; standard library only."""
