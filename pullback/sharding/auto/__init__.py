"""Automatic choice of the layouts of a program's inputs by an integer program."""
