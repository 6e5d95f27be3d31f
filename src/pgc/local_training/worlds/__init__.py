"""Private environments: a World is what is public of one; a Population is a distribution over its
private part ψ.
"""
