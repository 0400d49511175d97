"""export and import: modules as StableHLO, and StableHLO as modules."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from pullback.cli.diagnostics import blaming, report
from pullback.cli.options import command
from pullback.cli.source import Source, Trouble


def register(commands: Any) -> None:
    export = command(commands, "export", _export, "print a module as StableHLO")
    export.add_argument("file", help="a module, or - for the standard input")
    export.add_argument(
        "--portable", action="store_true", help="write bytes that later versions read too"
    )
    export.add_argument("--out", metavar="FILE", help="write to a file")
    import_ = command(commands, "import", _import, "print StableHLO as a module")
    import_.add_argument("file", help="StableHLO as text or portable bytes, or - for stdin")


def _export(args: argparse.Namespace) -> int:
    from pullback.interop.stablehlo import to_stablehlo

    if args.portable and not args.out and (args.json or sys.stdout.isatty()):
        raise Trouble("--portable writes bytes: name a file with --out")
    source = Source.read(args.file)
    with blaming(source):
        made = to_stablehlo(source.module, portable=args.portable)
    if args.out:
        _write(args.out, made if isinstance(made, bytes) else f"{made.rstrip()}\n".encode())
        return report(file=args.out) if args.json else 0
    if args.json:
        return report(stablehlo=made)
    if isinstance(made, bytes):
        sys.stdout.buffer.write(made)
    else:
        print(made.rstrip())
    return 0


def _write(path: str, data: bytes) -> None:
    try:
        with open(path, "wb") as file:
            file.write(data)
    except OSError as error:
        raise Trouble(f"cannot write {path}: {error.strerror or error}") from None


def _import(args: argparse.Namespace) -> int:
    from pullback.interop.stablehlo import from_stablehlo

    source = Source.read(args.file)
    with blaming(source):
        made = from_stablehlo(source.data)
    if args.json:
        return report(module=made.text())
    print(made.text())
    return 0
