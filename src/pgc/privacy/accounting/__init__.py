"""What many reports cost together: composition, and what shuffling would give."""
