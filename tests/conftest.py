"""Lets every test, in this folder and below, import `helpers` and `ir_ops`."""

import pytest
from hypothesis import settings

from pullback.transforms import template

# The same examples every time: a failure is a change of ours, not a throw of dice.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")


@pytest.fixture
def no_templates(monkeypatch):
    """Every derivative calls its rules: for tests that watch how."""
    monkeypatch.setattr(template, "LARGEST", -1)
