"""Step 1: what an agent is handed. θ, the public subspace in which it reports, and the schedule of
α.
"""
