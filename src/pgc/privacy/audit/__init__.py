"""Tries to break a mechanism's claim: lower bounds on ε from samples of what it really sends."""
