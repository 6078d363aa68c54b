"""Feature maps: kernel functions, landmarks (Nyström) and random Fourier features, all applied to rows in blocks."""
