"""Broken and large texts: each is a module, or an error that names its place."""

from __future__ import annotations

import gc
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_fuzz import CORE, FRAGMENTS, corpus, mutations, survives
from ir_texts import input_line

import pullback as pb
from pullback.static.catalogue import CATALOGUE


def test_thousands_of_broken_texts():
    outcomes = {survives(data) for data in mutations(corpus(), 4000, 11)}
    assert len(outcomes) > 20 and "module" in outcomes


TOKENS = st.sampled_from([*FRAGMENTS, *CORE.replace("\n", " \n ").split(" ")])


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.text(), st.binary(), st.lists(TOKENS, max_size=30).map(" ".join)))
def test_any_text_is_a_module_or_an_error_with_a_place(data):
    survives(data)


@settings(max_examples=200, deadline=None)
@given(st.lists(TOKENS, max_size=8).map(" ".join), st.integers(0, len(CORE)))
def test_random_words_inserted_into_a_module(inserted, at):
    survives(CORE[:at] + inserted + CORE[at:])


@pytest.mark.parametrize(
    "text",
    ["[", "%0 = Foo((", "%0 = Foo(graph(", " ", '"', "\\", "%0 = Foo(a(", "#", "\n", "%0 = Foo([1:",
     "+", "1e+", ";", "%0 = Foo(a(){", "%1, ", "Tensor<", "%0 = Foo(1,", "%0 = Foo(%1, ",
     "%0 = Foo(9"],
)  # fmt: skip
def test_memory_is_bounded_by_the_size_of_the_text(text):
    first, _, repeated = text.rpartition("Foo(")
    text = first + "Foo(" * bool(first) + repeated * (40_000 // len(repeated))
    gc.collect()
    tracemalloc.start()
    try:
        assert survives(text) in {*CATALOGUE, "syntax"}
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 400 * len(text) + 2**20


def test_huge_types_allocate_nothing():
    huge = "[1000000000, 1000000000, 1000000000]"
    text = f'%0 = Input() {{name: "x"}} : Tensor<f64, {huge}>\n%1 = Exp(%0) : Tensor<f64, {huge}>\n'
    spread = (
        f"%2 = ConstF64(1.0) : Tensor<f64, []>\n%3 = Broadcast(%2, {huge}) : Tensor<f64, {huge}>\n"
    )
    assert survives(f"profile: core-v1+gradient\n{text}{spread}outputs: %1, %3") == "module"
    assert survives(f"%0 = ConstTensor([1, 2]) : Tensor<f64, {huge}>\noutputs: %0") == "E4005"
    for rank, found in ((64, "module"), (65, "syntax")):  # arrays have at most 64 dimensions
        shape = [1] * rank
        assert survives(f"%0 = ConstTensor([1]) : Tensor<f64, {shape}>\noutputs: %0") == found


def test_a_hundred_thousand_instructions():
    lines = [f"%{i} = Neg(%{i - 1}) : Tensor<f32, [2]>\n" for i in range(1, 100_000)]
    module = pb.ir.parse(input_line(0, [2]) + "".join(lines) + "outputs: %99999")
    assert len(module.graph.nodes) == len(module.instructions) == 100_000
    made, places = pb.ir.canonicalise(module, with_map=True)
    assert made.text() == module.text() and places == {i: i for i in range(100_000)}
