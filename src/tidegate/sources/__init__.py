"""Where data comes from: each folder discovers what is new in one kind of source."""
