"""The page about networks: it compares a network with PyTorch's, and lists all layers."""

from __future__ import annotations

import re

from paths import ROOT

from pullback import nn

PAGE = (ROOT / "docs" / "nn.md").read_text(encoding="utf-8")


def lines(block: str) -> int:
    return len([line for line in block.splitlines() if line.strip()])


def test_a_network_of_pytorch_needs_hardly_more_lines():
    theirs = re.search(r"^```text\n(import torch.*?)^```$", PAGE, re.M | re.S).group(1)
    ours = re.search(r"^```python\n(import pullback.*?)^```$", PAGE, re.M | re.S).group(1)
    assert lines(ours) <= 1.2 * lines(theirs)
    for word in ("BatchNorm2d", "Dropout", "backward", "optimizer.step", "eval"):
        assert word in theirs and word in ours


def test_the_table_lists_all_layers():
    table = PAGE[PAGE.index("## Layers") : PAGE.index("## Saving")]
    listed = set(re.findall(r"\w+", table))
    layers = [n for n in nn.__all__ if isinstance(vars(nn)[n], type) and n[0].isupper()]
    layers = [n for n in layers if issubclass(vars(nn)[n], nn.Module) and n != "Module"]
    missing = [n for n in layers if n not in listed and re.sub(r"\dd$", "", n) not in listed]
    assert set(missing) <= {"LoRALinear", "NF4Linear"}  # on a page of their own
