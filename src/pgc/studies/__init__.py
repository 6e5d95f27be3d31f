"""Many runs and one report: the reproduction of the paper, and the frontier of mechanisms and ε."""
