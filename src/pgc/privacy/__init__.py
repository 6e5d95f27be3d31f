"""What makes a guarantee last."""
