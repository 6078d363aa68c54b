"""Solvers: each takes an objective and returns a Solution with a certificate; none depends on what is inside."""
