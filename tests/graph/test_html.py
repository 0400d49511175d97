"""What the prompt and notebooks show of tensors, programs, optimizers and meshes."""

from __future__ import annotations

import html
import re

import numpy as np
import pytest

import pullback as pb
from pullback.graph.html import html_array, html_table

MESH = pb.DeviceMesh((1, 1), ("<dp>", "tp"))
SHARDED = pb.ones((2, 2)).shard(MESH, pb.P("<dp>"))
W = pb.tensor([1.0, 2.0], requires_grad=True)
double = pb.compile(lambda x: 2 * x, name="double")


def plain(text: str) -> str:
    """The text of HTML, with its tags as spaces."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())


# the object, its repr, and words of its HTML
SHOWN = {
    "matrix": (
        lambda: pb.tensor([[1.0, np.nan], [np.inf, -2.5]]),
        "Tensor([[ 1. ,  nan],\n        [ inf, -2.5]], f32)", "Tensor f32[2,2] 1 nan inf -2.5",
    ),
    "scalar": (lambda: pb.tensor(3), "Tensor(3, i64)", "Tensor i64[] 3"),
    "pending": (lambda: pb.tensor([1, 2]) * 2, "Tensor([2, 4], i64)", "Tensor i64[2] 2 4"),
    "complex": (lambda: pb.tensor([1 + 2j]), "Tensor([1.+2.j], complex64)", "[1] 1+2j"),
    "bools": (lambda: pb.tensor([True]), "Tensor([ True], bool)", "Tensor bool[1] True"),
    "half": (lambda: pb.ones(2, dtype=pb.bfloat16), "Tensor([1, 1], bf16)", "bf16[2] 1 1"),
    "empty": (lambda: pb.zeros((0, 3)), "Tensor([], f32, shape=(0, 3))", "f32[0,3] []"),
    "no elements": (lambda: pb.zeros(0), "Tensor([], f32)", "f32[0] []"),
    "large": (
        lambda: pb.reshape(pb.arange(10_000), (100, 100)), "i64, shape=(100, 100))",
        "Tensor i64[100,100] 0 1 2 3 \u2026 96 97 98 99 100",
    ),
    "cube": (lambda: pb.ones((2, 1, 1)), "Tensor([[[1.]],\n\n        [[1.]]], f32)", "[[[1.]]"),
    "leaf": (lambda: W, "requires_grad=True)", "requires_grad=True 1 2"),
    "sharded": (lambda: SHARDED, "f32, P('<dp>'))", "P('<dp>') on DeviceMesh(<dp>=1, tp=1) 1 1"),
    "mesh": (lambda: MESH, "DeviceMesh(<dp>=1, tp=1)", "DeviceMesh(<dp>=1, tp=1) 0"),
    "sharding": (lambda: SHARDED.sharding, "Sharding(DeviceMesh(", "dimension 0 <dp>"),
    "trace": (
        lambda: pb.trace(lambda x: x * x, pb.ones(2)), "<trace of (f32[2]) -> (f32[2]), 1 op>",
        "Trace of (f32[2]) -> (f32[2]), 1 op %0 = Input()",
    ),
    "compiled": (lambda: double, "<compiled double>", "Compiled double programs none yet"),
    "lowered": (
        lambda: pb.compile(pb.sin, name="f").lower(W), "<lowered f: (f32[2]) -> (f32[2]), 1 op>",
        "Lowered f: (f32[2]) -> (f32[2]), 1 op",
    ),
    "cache": (pb.cache_info, "CacheInfo(hits=", "CacheInfo hits"),
    "engine": (pb.engine_info, "EngineInfo(engine=", "EngineInfo engine"),
    "state": (
        lambda: pb.optim.adam().init({"w": W}),
        "OptimizerState(step=0, mean=f32[2], square=f32[2])",
        "OptimizerState step 0 mean f32[2] square f32[2]",
    ),
    "many": (
        lambda: pb.optim.sgd(momentum=0.9).init([W] * 9),
        "OptimizerState(step=none, velocity=9 tensors, f32[2] ...)", "9 tensors",
    ),
    "optimizer": (
        lambda: pb.optim.SGD([W]), "<SGD of f32[2]: SGDRule(learning_rate=", "SGD rule SGDRule(",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_what_is_shown(name):
    make, text, words = SHOWN[name]
    shown = make()
    assert text in repr(shown)
    page = shown._repr_html_()
    assert words in plain(page)
    assert len(page) < 20_000
    assert "<dp>" not in page and "<lambda>" not in page


def test_placeholders_show_their_type():
    seen = []

    def f(x):
        seen.extend([repr(x), plain(x._repr_html_())])
        return x

    pb.compile(f)(pb.ones(2))
    assert seen == ["Tensor(f32[2])", "Tensor f32[2]"]


def test_programs_that_were_compiled(tmp_path):
    f = pb.compile(lambda x: x + x, name="next")
    f(pb.ones(2))
    assert "program 1 (f32[2]) -> (f32[2]), 1 op" in plain(f._repr_html_())
    lowered = f.lower(pb.ones(2))
    assert repr(lowered.compile()) == "<program next: (f32[2]) -> (f32[2]), 1 op>"
    assert "Program next" in lowered.compile()._repr_html_()
    lowered.save(tmp_path / "next")
    loaded = pb.load_compiled(tmp_path / "next")
    assert repr(loaded) == "<loaded next: x: f32[2]>"
    assert plain(loaded._repr_html_()) == "Loaded next x f32[2]"


def test_text_is_escaped():
    page = html_table("<t>", [("<a>", '<b> & "c"')])
    assert plain(page) == '<t> <a> <b> & "c"' and "<a>" not in page and "<b> &" not in page
    assert html_array("<x>", None) == "<div><b>&lt;x&gt;</b></div>"
