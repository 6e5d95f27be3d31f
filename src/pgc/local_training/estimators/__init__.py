"""How an agent computes what it reports from its episodes: the policy gradient, or evolution; and
their baselines.
"""
