"""Lets every test, in this folder and below, import `helpers` and `ir_ops`."""

from hypothesis import settings

# The same examples every time: a failure is a change of ours, not a throw of dice.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")
