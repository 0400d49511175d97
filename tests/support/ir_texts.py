"""Words for tests of the static IR: texts of modules, and the errors that they give."""

from __future__ import annotations

from typing import Any

import pytest

import pullback as pb

X = '%0 = Input() {name: "x"} : Tensor<f32, [2, 3]>\n'


def input_line(i: int, shape: Any, dtype: str = "f32") -> str:
    return f'%{i} = Input() {{name: "x{i}"}} : Tensor<{dtype}, {list(shape)}>\n'


def fails(code: str, text: str, **values: Any) -> pb.PullbackError:
    """The error that a text gives: its code, its place, and its values."""
    with pytest.raises(pb.PullbackError) as caught:
        pb.ir.verify(pb.ir.parse(text))
    error = caught.value
    assert error.code == code, error
    assert error.values["line"] >= 1 and error.values["column"] >= 1
    for name, value in values.items():
        assert error.values[name] == value, (name, error.values)
    return error


def last_type(text: str) -> str:
    """The shape that an application has: the error of another declared type names it."""
    with pytest.raises(pb.PullbackError) as caught:
        pb.ir.verify(pb.ir.parse(f"{text} : Tensor<f32, [77]>\noutputs:"))
    assert caught.value.code == "E2001", caught.value
    return str(list(caught.value.values["inferred"][0].shape))
