"""Fixtures for all tests and for the examples in docstrings."""

import gc
import importlib.util
import signal
from collections.abc import Generator, Iterator
from typing import Any

import pytest

import pullback
from pullback.engines.engine_registry import registered_engine
from pullback.graph.op_table import TABLE
from pullback.lazy import settings

# Modules that need an optional library
_NEEDS = {"pullback/interop/einops_backend.py": "einops"}
collect_ignore = [path for path, name in _NEEDS.items() if importlib.util.find_spec(name) is None]


def pytest_configure(config: pytest.Config) -> None:
    """Restore the handler of Ctrl-C, which some tests send: shells ignore it in background jobs."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Collected tests stay: looking for garbage among them takes a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


PRINTS = (
    "DebugPrint",
    "debug.md",
    "[debugging-",
    "debug/printing.py",
    "test_printing.py",
    "debug_nan.md",
    "debug.print",
)


@pytest.hookimpl(tryfirst=True)  # before the order is shuffled
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run each example once: packages publish the functions of their files."""
    found: dict[str, pytest.Item] = {}
    for item in items:
        if isinstance(item, pytest.DoctestItem):
            text = item.dtest.docstring or item.name
            if text not in found or found[text].path.name == "__init__.py":
                found[text] = item
    once = set(found.values())
    items[:] = [x for x in items if not isinstance(x, pytest.DoctestItem) or x in once]


@pytest.fixture(autouse=True)
def prints_on_cpu(request: pytest.FixtureRequest) -> None:
    """`pb.debug.print` works inside programs for the CPU; elsewhere it is refused."""
    prints = any(words in request.node.nodeid for words in PRINTS)
    if prints and registered_engine("xla").platform != "cpu":
        pytest.skip("programs print on the CPU alone")


@pytest.fixture(autouse=True)
def _pb(doctest_namespace):
    """Examples know pullback as `pb`."""
    doctest_namespace["pb"] = pullback


# Modules whose examples print numbers that are the same in both engines, as tests/random and
# tests/special check: XLA would take seconds to compile some of them.
BOTH_ENGINES = ("pullback/random/", "pullback/special/")


@pytest.fixture(autouse=True)
def own_settings(request: pytest.FixtureRequest) -> Iterator[None]:
    """Undo the settings that a test or an example leaves behind."""
    before = settings._settings.set(settings.current())
    if request.node.nodeid.startswith(BOTH_ENGINES):
        with pullback.config(engine="reference"):
            yield
    else:
        yield
    settings._settings.reset(before)


@pytest.fixture(autouse=True)
def op_table(request: pytest.FixtureRequest) -> Iterator[None]:
    """Remove the ops that an example defines: tests walk over the whole table."""
    if not isinstance(request.node, pytest.DoctestItem):
        yield
        return
    before = dict(TABLE)
    yield
    TABLE.clear()
    TABLE.update(before)
