"""Rankers with one ranking function per user over shared item features."""
