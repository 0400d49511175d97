"""Special functions of mathematics and statistics, under the names of SciPy."""
