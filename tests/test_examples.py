"""The demo learns, and its chart is a picture."""

from __future__ import annotations

import runpy
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_digits_learns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    digits = runpy.run_path(str(EXAMPLES / "digits.py"))
    settings = digits["main"].__globals__
    monkeypatch.setitem(settings, "EPOCHS", 4)
    monkeypatch.setitem(settings, "OUT", tmp_path)
    digits["main"]()
    shown = capsys.readouterr().out
    accuracy = float(shown.split("test accuracy")[1].split("%")[0])
    assert accuracy > 85
    picture = ET.parse(tmp_path / "digits-loss.svg").getroot()
    lines = [p for p in picture.iter() if p.tag.endswith("polyline")]
    assert [len(p.get("points", "").split()) for p in lines] == [4, 4]
