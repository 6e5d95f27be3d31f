"""The aggregator as a service for real devices.

Its aggregator, offers and reports are those of simulations; admission and a durable store are added
around them.
"""

import ipaddress


def is_loopback(host: str) -> bool:
    """Returns whether `host` can only mean this machine, so that TLS is not needed."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
