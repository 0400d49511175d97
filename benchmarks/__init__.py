"""Benchmarks: `python -m benchmarks` compares pullback with JAX and PyTorch.

The other scripts in this folder measure what has no counterpart in those libraries.
"""
