"""Rankers that Ranking SVMs are compared with: the shared objective and solvers under another loss, and boosting."""
