"""Measures how much faster the engine is than plain loops of the same algorithm."""
