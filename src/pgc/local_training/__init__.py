"""Step 2: an agent plays the θ it was handed in its own world, and makes one gradient of its
episodes.
"""
