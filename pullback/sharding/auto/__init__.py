"""Choosing how a program's inputs lie on a mesh, by an integer program over the cost model."""
