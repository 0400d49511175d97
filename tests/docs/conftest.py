"""The documentation site as it is built: by `make docs` before, or by the first test that asks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT


@pytest.fixture(scope="session")
def site() -> Path:
    for package in ("sphinx", "myst_parser", "pydata_sphinx_theme"):
        pytest.importorskip(package, reason="`pip install .[docs]` brings what builds the site")
    from tools.site.build import OUT, is_current

    if not is_current():  # in a process of its own: Sphinx forks, and XLA has threads here
        subprocess.run([sys.executable, "-m", "tools.site"], cwd=ROOT, check=True)
    return OUT
