"""docs/tour.ipynb: its cells run and show what it stores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from paths import ROOT

import pullback as pb
from tools.site.notebook import as_page, run_cells

TOUR = ROOT / "docs" / "tour.ipynb"


@pytest.mark.usefixtures("cold_disk")
def test_outputs_are_those_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pb.clear_cache()
    cells = json.loads(TOUR.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert 10 <= len(code) <= 15
    for cell, outputs in zip(code, run_cells(cells), strict=True):
        for stored, made in zip(cell["outputs"], outputs, strict=True):
            if "image/svg+xml" in made.get("data", {}):  # last digits differ between machines
                stored["data"]["image/svg+xml"] = made["data"]["image/svg+xml"]
            assert made == stored, "".join(cell["source"])


def test_the_page_shows_code_and_outputs() -> None:
    page = as_page(TOUR)
    assert page.startswith("# A tour") and "```python\nimport pullback as pb" in page
    assert "<svg" in page and ":class: output" in page
