"""Scopes of settings: nested, interleaved, left elsewhere, never left."""

import contextvars
import random
import threading

import pytest

import pullback as pb
from pullback.lazy.settings import SettingsScope, current


def depth(settings):
    return 0 if settings.outer is None else 1 + depth(settings.outer)


def alternating(scope):
    with scope():
        yield current()
        yield current()


def test_interleaved_generators_take_back_their_own_changes_alone():
    first, second = alternating(pb.no_grad), alternating(lambda: pb.default_dtype("float64"))
    next(first)
    both = next(second)
    assert not both.grad_enabled and both.default_dtype is pb.float64
    assert list(first)
    assert current().grad_enabled and current().default_dtype is pb.float64
    assert list(second)
    assert current().default_dtype is pb.float32


def test_the_innermost_scope_wins_whatever_is_left_first():
    outer, inner = alternating(lambda: pb.config(eager=True)), alternating(pb.no_grad)
    next(outer)
    next(inner)
    with pb.config(eager=False):
        outer.close()
        assert not current().eager and not current().grad_enabled
    assert not current().eager and not current().grad_enabled
    inner.close()


def test_one_scope_can_be_entered_again():
    scope = pb.no_grad()
    with scope:
        with scope:
            assert not current().grad_enabled
        assert not current().grad_enabled
    assert current().grad_enabled
    with scope:
        assert not current().grad_enabled


def test_a_scope_left_in_another_context_changes_nothing_there():
    scope = pb.no_grad()
    contextvars.Context().run(scope.__exit__)
    assert not current().grad_enabled
    scope.__exit__()


@pytest.mark.parametrize("seed", range(20))
def test_scopes_left_in_any_order_leave_nothing_behind(seed):
    dice = random.Random(seed)
    start = current()
    changes = {"grad_enabled": False, "eager": True, "default_dtype": pb.float64}
    open_scopes = []
    for _ in range(30):
        if open_scopes and dice.random() < 0.5:
            open_scopes.pop(dice.randrange(len(open_scopes)))[1].close()
        else:
            name = dice.choice(list(changes))
            scope = alternating(lambda name=name: SettingsScope(**{name: changes[name]}))
            next(scope)
            open_scopes.append((name, scope))
        for name, value in changes.items():
            wanted = value if name in [n for n, _ in open_scopes] else getattr(start, name)
            assert getattr(current(), name) == wanted
    while open_scopes:
        open_scopes.pop(dice.randrange(len(open_scopes)))[1].close()
    assert current() == start and depth(current()) == depth(start)


def test_settings_are_equal_whatever_scopes_made_them():
    before = current()
    with pb.no_grad(), pb.config(eager=before.eager):
        assert current() != before
    with pb.config(eager=before.eager):
        assert current() == before and current() is not before


def test_settings_that_are_set_again_and_again_take_no_more_memory():
    found = []

    def work():
        for i in range(1000):
            pb.config(eager=i % 2 == 0)
            pb.default_dtype("float64")
        found.append(current())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert depth(found[0]) < 5
    assert not found[0].eager and found[0].default_dtype is pb.float64
