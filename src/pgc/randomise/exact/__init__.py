"""Exact noise in integers, from bits of the operating system."""
