"""π and V over one flat vector θ: built-in networks, and users' own functions and modules."""
