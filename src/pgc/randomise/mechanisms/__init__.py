"""Q: what randomises a gradient.

Each mechanism is a small file: all that is particular to it, in one file.
"""
