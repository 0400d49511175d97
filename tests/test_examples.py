"""The demo learns, its chart is a picture, and the other examples find what they assert."""

from __future__ import annotations

import runpy
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("implicit", "second derivative"),
        ("per_example_gradients", "norms of 16 examples"),
        ("hessian", "forward over reverse"),
        ("lstm", "first signs remembered"),
        ("neural_ode", "error of the path"),
    ],
)
def test_example_holds(name: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert words in capsys.readouterr().out


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
