"""The aggregator for real devices: the same aggregator, offers and reports, with admission and a durable store around them."""
