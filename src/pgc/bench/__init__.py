"""Plain loops of the same algorithm, and how much faster the engine is."""
