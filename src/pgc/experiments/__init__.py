"""Runs, metrics, pictures and statements."""
