"""What commands return, as frozen values."""
