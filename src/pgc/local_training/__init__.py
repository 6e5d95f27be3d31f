"""Step 2: an agent plays the θ that it received in its own world, and computes one gradient from
its episodes.
"""
