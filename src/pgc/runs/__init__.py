"""Runs on disk: collecting submissions, metrics, evaluation, comparison and pictures."""
