"""Engines that drive the four steps: in plain Python, compiled, or on the host."""
