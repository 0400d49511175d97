"""Discrete Fourier and cosine transforms."""
