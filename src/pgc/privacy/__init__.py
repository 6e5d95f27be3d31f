"""What privacy is claimed, what it adds up to, and how to try to break it."""
