"""The aggregator for real devices: the same aggregator, offers and reports, with admission and a
durable store around them.
"""

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether only this machine can be meant: where TLS is not needed."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
