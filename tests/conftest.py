"""Lets every test, in this folder and below, import `helpers` and `ir_ops`."""
