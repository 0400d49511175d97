"""Conformance cases: a module, and what must come of it.

A case is a YAML document:

    description: the gradient of a full sum is ones
    category: autodiff              # lexical, shapes, ir_verification, autodiff, runtime ...
    profile: cpu                    # gpu asks for an accelerator
    input:
      ir_module: |                  # the module
      values: {x: [1.0, 2.0]}       # its inputs, for cases that run
      wrt: [x]                      # for cases that differentiate; also output, seed, profile
    expected:
      status: success               # or error
      output:
        ir: |                       # the canonical form
        gradient_module: |          # the gradient module
        result: {dtype: f32, shape: [2], values: [1.0, 1.0], tolerance: 1e-6}
      error: {code: E3001, message_contains: extents, location: {line: 3, column: 1}}

Of a case in the category `autodiff`, `result` is the gradient, or a list of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from pullback.cli.diagnostics import message_of, place_of
from pullback.errors import PullbackError
from pullback.graph.dtypes import NAMES
from pullback.static.module import Module, canonicalise, verify
from pullback.static.parser import parse

LARGEST = {"f32": 1e-6, "f64": 1e-12}  # tolerances that the specification allows


class Verdict(NamedTuple):
    """pass, fail or skip, and why."""

    outcome: str
    reason: str = ""


class Wrong(Exception):
    """The case does not hold."""


def judge(case: Any, engine: str | None = None) -> Verdict:
    """Whether a case holds."""
    try:
        given, expected = _parts(case)
        if "ir_module" not in given:
            return Verdict("skip", "no ir_module: the surface language is not part of this")
        if case.get("profile") == "gpu" and not (engine or "").startswith("xla:"):
            return Verdict("skip", "it asks for an accelerator: choose one with --engine")
        _judge(case, given, expected, engine)
    except Wrong as wrong:
        return Verdict("fail", str(wrong))
    except Exception as error:  # of the case's own values, or a fault of ours: it does not hold
        return Verdict("fail", f"{type(error).__name__}: {error}")
    return Verdict("pass")


def _parts(case: Any) -> tuple[Mapping, Mapping]:
    if not isinstance(case, Mapping):
        raise Wrong("a case must be a mapping with `input` and `expected`")
    given, expected = case.get("input"), case.get("expected")
    if not isinstance(given, Mapping) or not isinstance(expected, Mapping):
        raise Wrong("a case must have `input` and `expected`")
    if expected.get("status") not in ("success", "error"):
        raise Wrong("`expected.status` must be success or error")
    return given, expected


def _judge(case: Mapping, given: Mapping, expected: Mapping, engine: str | None) -> None:
    wanted = expected.get("output") or {}
    try:
        found = _outcome(case, given, wanted, engine)
    except PullbackError as error:
        if expected["status"] == "success":
            raise Wrong(f"expected success, got {error.code}: {message_of(error)}") from error
        _compare_error(expected.get("error") or {}, error)
        return
    if expected["status"] == "error":
        raise Wrong(f"expected {(expected.get('error') or {}).get('code')}, got success")
    for key, value in wanted.items():
        if key not in found:
            raise Wrong(f"cannot compare `output.{key}`")
        if key == "result":
            _compare_arrays(value, found[key])
        else:
            _compare_texts(key, str(value), found[key])


def _outcome(case: Mapping, given: Mapping, wanted: Mapping, engine: str | None) -> dict[str, Any]:
    """What comes of the module, as far as somebody asks."""
    module = parse(str(given["ir_module"]))
    found: dict[str, Any] = {}
    count = 0
    differentiates = case.get("category") == "autodiff" or "gradient_module" in wanted
    if not differentiates:
        verify(module)
    elif "ir" not in wanted:
        module, count = _gradient(module, given), len(module.outputs)
        found["gradient_module"] = module.text()
    if "ir" in wanted:
        found["ir"] = canonicalise(module).text()
    if "result" in wanted or "values" in given:
        from pullback.static.run import run

        found["result"] = run(module, given.get("values") or {}, engine)[count:]
    return found


def _gradient(module: Module, given: Mapping) -> Module:
    from pullback.static.autodiff import autodiff

    output = given.get("output")
    return autodiff(
        module,
        [_value(t) for t in given["wrt"]] if "wrt" in given else None,
        None if output is None else int(str(output).removeprefix("%")),
        given.get("seed"),
        profile=given.get("profile"),
    ).gradient_module


def _value(target: Any) -> int | str:
    text = str(target)
    return int(text[1:]) if text[:1] == "%" and text[1:].isdigit() else text


# -- comparing ------------------------------------------------------------------------------------


def _compare_error(wanted: Mapping, error: PullbackError) -> None:
    got = f"{error.code}: {message_of(error)}"
    if "code" in wanted and wanted["code"] != error.code:
        raise Wrong(f"expected {wanted['code']}, got {got}")
    part = str(wanted.get("message_contains", ""))
    if part.lower() not in str(error).lower():
        raise Wrong(f"expected a message with {part!r}, got {got}")
    place = wanted.get("location")
    if place is not None:
        found = place_of(error)
        at = {"line": found.line, "column": found.column} if found else {}
        if any(at.get(k) != v for k, v in place.items()):
            raise Wrong(f"expected the place {dict(place)}, got {at or 'none'}")


def _compare_texts(key: str, wanted: str, found: str) -> None:
    lines = parse(wanted).text().split("\n")
    for number, (a, b) in enumerate(zip(lines, found.split("\n"), strict=False), 1):
        if a != b:
            raise Wrong(f"{key}, line {number}: expected `{a}`, got `{b}`")
    if len(lines) != found.count("\n") + 1:
        raise Wrong(f"{key}: expected {len(lines)} lines, got {found.count(chr(10)) + 1}")


def _compare_arrays(wanted: Any, found: list[np.ndarray]) -> None:
    listed = wanted if isinstance(wanted, list) else [wanted]
    if len(listed) != len(found):
        raise Wrong(f"expected {len(listed)} results, got {len(found)}")
    for number, (one, array) in enumerate(zip(listed, found, strict=True)):
        _compare_array(f"result {number}" if len(listed) > 1 else "result", one, array)


def _compare_array(name: str, wanted: Mapping, found: np.ndarray) -> None:
    kind = str(wanted.get("dtype", "f32"))
    if kind not in NAMES:
        raise Wrong(f"{name}: {kind} is no element type")
    if found.dtype != NAMES[kind].numpy:
        raise Wrong(f"{name}: expected {kind}, got {found.dtype}")
    if "shape" in wanted and tuple(wanted["shape"]) != found.shape:
        raise Wrong(f"{name}: expected shape {wanted['shape']}, got {list(found.shape)}")
    if "values" not in wanted:
        return
    values = np.array(wanted["values"], found.dtype)  # YAML takes 1e-6 for a string; NumPy does not
    if values.shape != found.shape:
        raise Wrong(f"{name}: values of shape {list(values.shape)}, got {list(found.shape)}")
    allowed = LARGEST.get(kind, 0.0)
    tolerance = float(wanted.get("tolerance", allowed))
    if tolerance > allowed:
        raise Wrong(f"{name}: the tolerance may be at most {allowed}, got {tolerance}")
    if not np.allclose(found, values, rtol=tolerance, atol=tolerance, equal_nan=True):
        raise Wrong(f"{name}: expected {values.tolist()}, got {found.tolist()}")
