"""Private environments: a World is the public part of one; a Population is a distribution over its
private part ψ.
"""
