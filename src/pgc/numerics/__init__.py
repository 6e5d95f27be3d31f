"""Numbers and arrays: addressed randomness, traced numbers, linear equations,
projections, trees.
"""
