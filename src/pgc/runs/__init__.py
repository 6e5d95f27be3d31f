"""One run on disk: collect, metrics, evaluate, compare, pictures."""
