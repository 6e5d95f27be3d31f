"""Mechanisms × ε: what privacy costs, and which mechanism to choose."""
