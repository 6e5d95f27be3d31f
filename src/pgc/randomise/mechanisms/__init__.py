"""The mechanisms Q, which randomise a gradient.

Each mechanism is one small file, which holds everything that is particular to it.
"""
