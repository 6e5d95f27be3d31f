"""Step 1: an agent is handed θ, the public subspace in which it reports, and α."""
