"""Trained rankers for other programs, and the project's own model file."""
