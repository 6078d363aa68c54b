"""Feature maps: kernel functions, landmarks (Nyström), random Fourier features, and curves of single columns."""
