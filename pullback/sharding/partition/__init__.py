"""Partitioning: a program on whole values becomes one for each device's parts."""
