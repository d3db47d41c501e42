"""``tidegate chaos``: experiments that try to lose or double a row."""
