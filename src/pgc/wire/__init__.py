"""What crosses between a device and an aggregator: `Offer` and `Report`, as bytes. docs/wire.md is
the specification.
"""

from pgc.wire.fields import Malformed
from pgc.wire.offer import Offer
from pgc.wire.query import Query
from pgc.wire.report import Report

__all__ = ["Malformed", "Offer", "Query", "Report"]
