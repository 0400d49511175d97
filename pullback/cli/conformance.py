"""conformance: run YAML cases, each a module and its expected outcome.

docs/ir.md shows the format. In the category `autodiff`, `result` is the gradient, or a list of
gradients.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pullback.cli.diagnostics import (
    CommandDiagnostic,
    DiagnosticStyle,
    diagnostic_message,
    place_of_diagnostic,
    printable_diagnostic,
    report_diagnostics,
)
from pullback.cli.options import command_with_options, engine_option
from pullback.errors import PullbackError
from pullback.graph.dtypes import NAMES
from pullback.static.autodiff import autodiff
from pullback.static.module import IRModule, canonicalise, verify
from pullback.static.parser import parse
from pullback.static.run_module import run

OUTCOMES = {"pass": ("passed", "green"), "fail": ("failed", "red"), "skip": ("skipped", "blue")}
LARGEST = {"f32": 1e-6, "f64": 1e-12}  # the largest tolerances that the specification allows


def register_conformance(commands: Any) -> None:
    about = "run conformance cases written in YAML"
    more = "Print a line for each; the status is 1 if one fails."
    parser = command_with_options(commands, "conformance", _conformance, about, more)
    parser.add_argument("path", nargs="+", help="files, or folders that are searched for .yaml")
    engine_option(parser)
    parser.add_argument("--quiet", "-q", action="store_true", help="leave out cases that pass")


def _conformance(args: argparse.Namespace) -> int:
    count: Counter[str] = Counter()
    records = []
    for path in args.path:
        for name, case in read_conformance_cases(path):
            verdict = judge_conformance_case(case, args.engine)
            about = case.get("description", "") if isinstance(case, dict) else ""
            records.append({"case": name, "description": about, **verdict._asdict()})
            count[verdict.outcome] += 1
            if not args.json and (verdict.outcome != "pass" or not args.quiet):
                _show_conformance_case(records[-1])
    if not records:
        raise CommandDiagnostic(f"there are no cases in {', '.join(args.path)}")
    totals = {word: count[outcome] for outcome, (word, _) in OUTCOMES.items()}
    if args.json:
        report_diagnostics(cases=records, **totals)
    else:
        print(", ".join([f"{n} {word}" for word, n in totals.items()]))
    return 1 if count["fail"] else 0


def _show_conformance_case(record: dict[str, str]) -> None:
    outcome = record["outcome"]
    more = "".join(
        [f": {printable_diagnostic(record[k])}" for k in ("description", "reason") if record[k]]
    )
    word = DiagnosticStyle(sys.stdout)(outcome, OUTCOMES[outcome][1])
    print(f"{word}  {printable_diagnostic(record['case'])}{more}")


def read_conformance_cases(path: str) -> Iterator[tuple[str, Any]]:
    """The cases of a file, or of all files in a folder, by name, in order."""
    try:
        import yaml  # optional
    except ModuleNotFoundError:
        message = "conformance cases need PyYAML, which is not installed"
        raise CommandDiagnostic(message, hint="pip install 'pullback[conformance]'") from None
    root = Path(path)
    files = sorted([*root.rglob("*.yaml"), *root.rglob("*.yml")]) if root.is_dir() else [root]
    for file in files:
        try:
            documents = list(yaml.safe_load_all(file.read_bytes()))
        except OSError as error:
            raise CommandDiagnostic(f"cannot read {file}: {error.strerror or error}") from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            reason = " ".join(str(error).split())
            raise CommandDiagnostic(f"cannot read {file} as YAML: {reason}") from None
        for number, content in enumerate(documents, 1):
            yield (f"{file}#{number}" if len(documents) > 1 else str(file)), content


class Verdict(NamedTuple):
    """The outcome of a case (pass, fail or skip) and the reason."""

    outcome: str
    reason: str = ""


class ConformanceFailure(Exception):
    """The reason why a case fails."""


def judge_conformance_case(case: Any, engine: str | None = None) -> Verdict:
    """Run a case and compare the outcome."""
    try:
        given, expected = _parts_of_conformance_case(case)
        if "ir_module" not in given:
            return Verdict("skip", "no ir_module: the surface language is not supported")
        if case.get("profile") == "gpu" and not (engine or "").startswith("xla:"):
            return Verdict("skip", "it needs an accelerator: choose one with --engine")
        _judge_conformance_parts(case, given, expected, engine)
    except ConformanceFailure as failure:
        return Verdict("fail", str(failure))
    except Exception as error:  # bad values in the case, or an error in pullback
        return Verdict("fail", f"{type(error).__name__}: {error}")
    return Verdict("pass")


def _parts_of_conformance_case(case: Any) -> tuple[Mapping, Mapping]:
    if not isinstance(case, Mapping):
        raise ConformanceFailure("a case must be a mapping with `input` and `expected`")
    given, expected = case.get("input"), case.get("expected")
    if not isinstance(given, Mapping) or not isinstance(expected, Mapping):
        raise ConformanceFailure("a case must have `input` and `expected`")
    if expected.get("status") not in ("success", "error"):
        raise ConformanceFailure("`expected.status` must be success or error")
    return given, expected


def _judge_conformance_parts(
    case: Mapping, given: Mapping, expected: Mapping, engine: str | None
) -> None:
    wanted = expected.get("output") or {}
    try:
        found = _conformance_outcome(case, given, wanted, engine)
    except PullbackError as error:
        if expected["status"] == "success":
            raise ConformanceFailure(
                f"expected success, got {error.code}: {diagnostic_message(error)}"
            ) from error
        _compare_conformance_error(expected.get("error") or {}, error)
        return
    if expected["status"] == "error":
        raise ConformanceFailure(
            f"expected {(expected.get('error') or {}).get('code')}, got success"
        )
    for key, value in wanted.items():
        if key not in found:
            raise ConformanceFailure(f"cannot compare `output.{key}`")
        if key == "result":
            _compare_conformance_arrays(value, found[key])
        else:
            _compare_conformance_texts(key, str(value), found[key])


def _conformance_outcome(
    case: Mapping, given: Mapping, wanted: Mapping, engine: str | None
) -> dict[str, Any]:
    """The results that the case compares."""
    module = parse(str(given["ir_module"]))
    found: dict[str, Any] = {}
    count = 0
    differentiates = case.get("category") == "autodiff" or "gradient_module" in wanted
    if not differentiates:
        verify(module)
    elif "ir" not in wanted:
        module, count = _conformance_gradient(module, given), len(module.outputs)
        found["gradient_module"] = module.text()
    if "ir" in wanted:
        found["ir"] = canonicalise(module).text()
    if "result" in wanted or "values" in given:
        found["result"] = run(module, given.get("values") or {}, engine)[count:]
    return found


def _conformance_gradient(module: IRModule, given: Mapping) -> IRModule:
    wrt = [_conformance_value(t) for t in given["wrt"]] if "wrt" in given else None
    output = None if given.get("output") is None else int(str(given["output"]).removeprefix("%"))
    made = autodiff(module, wrt, output, given.get("seed"), profile=given.get("profile"))
    return made.gradient_module


def _conformance_value(target: Any) -> int | str:
    text = str(target)
    return int(text[1:]) if text[:1] == "%" and text[1:].isdigit() else text


def _compare_conformance_error(wanted: Mapping, error: PullbackError) -> None:
    got = f"{error.code}: {diagnostic_message(error)}"
    if "code" in wanted and wanted["code"] != error.code:
        raise ConformanceFailure(f"expected {wanted['code']}, got {got}")
    part = str(wanted.get("message_contains", ""))
    if part.lower() not in str(error).lower():
        raise ConformanceFailure(f"expected a message with {part!r}, got {got}")
    place = wanted.get("location")
    if place is not None:
        found = place_of_diagnostic(error)
        at = {"line": found.line, "column": found.column} if found else {}
        if any(at.get(k) != v for k, v in place.items()):
            raise ConformanceFailure(f"expected the place {dict(place)}, got {at or 'none'}")


def _compare_conformance_texts(key: str, wanted: str, found: str) -> None:
    lines, got = parse(wanted).text().split("\n"), found.split("\n")
    for number, (a, b) in enumerate(zip(lines, got, strict=False), 1):
        if a != b:
            raise ConformanceFailure(f"{key}, line {number}: expected `{a}`, got `{b}`")
    if len(lines) != len(got):
        raise ConformanceFailure(f"{key}: expected {len(lines)} lines, got {len(got)}")


def _compare_conformance_arrays(wanted: Any, found: list[np.ndarray]) -> None:
    listed = wanted if isinstance(wanted, list) else [wanted]
    if len(listed) != len(found):
        raise ConformanceFailure(f"expected {len(listed)} results, got {len(found)}")
    for number, (one, array) in enumerate(zip(listed, found, strict=True)):
        _compare_conformance_array(f"result {number}" if len(listed) > 1 else "result", one, array)


def _compare_conformance_array(name: str, wanted: Mapping, found: np.ndarray) -> None:
    kind = str(wanted.get("dtype", "f32"))
    if kind not in NAMES:
        raise ConformanceFailure(f"{name}: {kind} is not a dtype")
    if found.dtype != NAMES[kind].numpy:
        raise ConformanceFailure(f"{name}: expected {kind}, got {found.dtype}")
    if "shape" in wanted and tuple(wanted["shape"]) != found.shape:
        raise ConformanceFailure(
            f"{name}: expected shape {wanted['shape']}, got {list(found.shape)}"
        )
    if "values" not in wanted:
        return
    values = np.array(wanted["values"], found.dtype)  # YAML reads 1e-6 as a string
    if values.shape != found.shape:
        raise ConformanceFailure(
            f"{name}: values of shape {list(values.shape)}, got {list(found.shape)}"
        )
    allowed = LARGEST.get(kind, 0.0)
    tolerance = float(wanted.get("tolerance", allowed))
    if tolerance > allowed:
        raise ConformanceFailure(f"{name}: the tolerance may be at most {allowed}, got {tolerance}")
    if not np.allclose(found, values, rtol=tolerance, atol=tolerance, equal_nan=True):
        raise ConformanceFailure(f"{name}: expected {values.tolist()}, got {found.tolist()}")
