"""What of its episodes an agent reports: the policy gradient, or evolution; and the baselines of
either.
"""
