"""`pgc reproduce`: the paper's evaluation beside the paper's own numbers."""
