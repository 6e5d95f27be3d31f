"""Q: what randomises a gradient.

Each mechanism is a small file: its guarantee, prepare, draw, decode, error.
"""
