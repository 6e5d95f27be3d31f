"""What crosses between the steps: `Offer`, with the `Query` in it, and `Report`, as bytes between a
device and an aggregator (docs/wire.md); in a simulation, the values in `values.py`.
"""

from pgc.wire.fields import Malformed
from pgc.wire.offer import Offer
from pgc.wire.query import Query
from pgc.wire.report import Report

__all__ = ["Malformed", "Offer", "Query", "Report"]
