"""conformance: runs YAML cases, each a module and what must come of it."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pullback.cli.diagnostics import report
from pullback.cli.options import command
from pullback.cli.source import Trouble
from pullback.cli.style import BLUE, GREEN, RED, Style, printable

WORDS = {"pass": "passed", "fail": "failed", "skip": "skipped"}


class ConformanceCase(NamedTuple):
    """A document of a file; `name` is the file, with a number where it has several."""

    name: str
    content: Any


def register(commands: Any) -> None:
    parser = command(
        commands, "conformance", _conformance, "run conformance cases written in YAML",
        description="Run conformance cases written in YAML, with one line for each. "
        "The status is 1 if one fails.",
    )  # fmt: skip
    parser.add_argument("path", nargs="+", help="files, or folders that are searched for .yaml")
    parser.add_argument("--engine", help="xla (the default), reference, or as xla:cuda")
    parser.add_argument("--quiet", "-q", action="store_true", help="leave out what passes")


def _conformance(args: argparse.Namespace) -> int:
    from pullback.cli.cases import judge

    count: Counter[str] = Counter()
    records = []
    for path in args.path:
        for case in read_cases(path):
            verdict = judge(case.content, args.engine)
            about = case.content.get("description", "") if isinstance(case.content, dict) else ""
            records.append({"case": case.name, "description": about, **verdict._asdict()})
            count[verdict.outcome] += 1
            if not args.json and (verdict.outcome != "pass" or not args.quiet):
                _show(records[-1])
    if not records:
        raise Trouble(f"there are no cases in {', '.join(args.path)}")
    totals = {word: count[outcome] for outcome, word in WORDS.items()}
    if args.json:
        report(cases=records, **totals)
    else:
        print(", ".join([f"{n} {word}" for word, n in totals.items()]))
    return 1 if count["fail"] else 0


def _show(record: dict[str, str]) -> None:
    colour = {"pass": GREEN, "fail": RED, "skip": BLUE}[record["outcome"]]
    word = Style(sys.stdout)(record["outcome"], colour)
    more = "".join([f": {printable(record[k])}" for k in ("description", "reason") if record[k]])
    print(f"{word}  {printable(record['case'])}{more}")


def read_cases(path: str) -> Iterator[ConformanceCase]:
    """The cases of a file, or of all files in a folder, in order."""
    try:
        import yaml
    except ModuleNotFoundError:
        raise Trouble(
            "conformance cases are read with PyYAML, which is not installed",
            hint="pip install 'pullback[conformance]'",
        ) from None
    root = Path(path)
    files = sorted([*root.rglob("*.yaml"), *root.rglob("*.yml")]) if root.is_dir() else [root]
    for file in files:
        try:
            documents = list(yaml.safe_load_all(file.read_bytes()))
        except OSError as error:
            raise Trouble(f"cannot read {file}: {error.strerror or error}") from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            reason = " ".join(str(error).split())
            raise Trouble(f"cannot read {file} as YAML: {reason}") from None
        for number, content in enumerate(documents, 1):
            yield ConformanceCase(f"{file}#{number}" if len(documents) > 1 else str(file), content)
