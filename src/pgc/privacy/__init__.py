"""What privacy a run claims, what many reports cost together, and how to try to break a claim."""
