"""Step 3: the gradient is randomised on the agent, so that ε-local differential privacy holds for
all that leaves it.
"""
