"""π and V over one flat vector θ: networks, and functions and modules of one's own."""
