"""Lets every test, in this folder and below, import `helpers` and `ir_ops`.

Test runs keep compiled programs in a folder of their own: they neither use nor fill the user's.
"""

import atexit
import gc
import itertools
import os
import shutil
import tempfile

import pytest
from hypothesis import settings

import pullback as pb
from pullback.engines.engine_registry import registered_engine as xla_engine
from pullback.transforms import gradient_cache

collect_ignore = ["typing/mistakes.py"]  # for the type checker: it does not run

# The same examples every time: a failure is a change of ours, not a throw of dice.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")

for name in ("PULLBACK_CACHE", "PULLBACK_CACHE_SIZE", "PULLBACK_CACHE_MEMORY"):
    os.environ.pop(name, None)
if "PYTEST_XDIST_WORKER" not in os.environ:  # the workers inherit it
    os.environ["PULLBACK_CACHE_DIR"] = tempfile.mkdtemp(prefix="pullback-tests-")
    atexit.register(shutil.rmtree, os.environ["PULLBACK_CACHE_DIR"], ignore_errors=True)

_numbers = itertools.count()


@pytest.fixture(autouse=True, scope="module")
def _little_garbage():
    """What earlier modules left behind, such as caches, is not searched for garbage again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_disk():
    """Tests count what is compiled, so nothing is kept on disk: those of the disk cache ask."""
    from pullback.engines.xla import disk_cache as disk

    disk.use_disk_cache(disk.DiskCache(None))
    yield
    disk.use_disk_cache(None)


@pytest.fixture
def cold_disk(no_disk):
    """An empty disk cache."""
    from pullback.engines.xla import disk_cache as disk

    folder = f"test-{os.getpid()}-{next(_numbers)}"
    cache = disk.DiskCache(os.path.join(os.environ["PULLBACK_CACHE_DIR"], folder))
    disk.use_disk_cache(cache)
    yield cache
    if cache.checked:
        shutil.rmtree(cache.directory, ignore_errors=True)


@pytest.fixture
def no_templates(monkeypatch):
    """Every derivative calls its rules: for tests that watch how."""
    monkeypatch.setattr(gradient_cache, "LARGEST", -1)


@pytest.fixture
def on_cpu():
    """For what holds for XLA's CPU compiler and memory of the host alone."""
    platform = xla_engine("xla").platform
    if platform != "cpu":
        pytest.skip(f"what is expected holds for the CPU, and tensors are on {platform}")


@pytest.fixture(params=["reference", "xla"])
def engine(request):
    """Both engines, one after the other."""
    with pb.config(engine=request.param):
        yield request.param


def pytest_collection_finish(session):
    """Twenty thousand collected tests are never garbage: looking through them would only take
    time, most of all in tests that make many objects."""
    gc.collect()
    gc.freeze()
