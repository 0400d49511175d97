"""Partitioning: the program of one device on its shards, from a program on whole values."""
