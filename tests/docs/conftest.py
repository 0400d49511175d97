"""The documentation site as it is built: by `make docs` before, or by the first test that asks."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def site() -> Path:
    for package in ("sphinx", "myst_parser", "pydata_sphinx_theme"):
        pytest.importorskip(package, reason="`pip install .[docs]` brings what builds the site")
    from tools.site.build import built_site

    return built_site()
