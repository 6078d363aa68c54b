"""Solvers: each takes an objective and returns a Solution with a certificate; none knows what is inside."""
