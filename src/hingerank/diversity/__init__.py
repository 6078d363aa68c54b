"""Rerankers that pick documents one after the other, each pick depending on those before it."""
