"""A robber: attacks on what leaves a device, with everything that the threat model grants.

Each attack is a game in which the robber guesses a secret, many times. `pgc attack` plays them and
draws how often the guess is right beside the most that ε-LDP allows.
"""
