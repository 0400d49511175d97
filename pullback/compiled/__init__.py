"""Compiled functions: one program for each kind of arguments."""
