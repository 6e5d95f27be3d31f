"""Step 4: the aggregator buffers decoded reports and moves θ."""
