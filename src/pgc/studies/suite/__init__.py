"""`pgc frontier --suite`: several worlds over ε, in one report."""
