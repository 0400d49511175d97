"""Guards: what must be the same at the next call of a compiled function."""
