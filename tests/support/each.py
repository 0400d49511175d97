"""One test case for many cheap checks: a case of its own would take longer than the check."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def each(names: Iterable[str]) -> Callable[[Callable[[str], Any]], Callable[[], None]]:
    """Make a test of one name a test of all of them; an error says for which it was raised."""

    def of_all(test: Callable[[str], Any]) -> Callable[[], None]:
        def run() -> None:
            for name in chosen:
                try:
                    test(name)
                except BaseException as error:
                    error.add_note(f"for {name}")
                    raise

        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        return run

    chosen = list(names)
    return of_all
