"""grad: a module with its gradients, which the other commands read as it stands."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pullback.cli.diagnostics import blaming, report
from pullback.cli.options import command, profile_option
from pullback.cli.source import Source, Trouble
from pullback.errors import PullbackError

SPOKEN = {
    'write profile="extended"': "use --profile extended",
    "seed=True": "--seed NAME",
    "output=": "--output %",
}


def register(commands: Any) -> None:
    parser = command(
        commands, "grad", _grad, "print a module that also computes gradients",
        description="Print the module that has the gradients of an output after its own outputs.",
    )  # fmt: skip
    parser.add_argument("file", help="a module, or - for the standard input")
    parser.add_argument(
        "--wrt", action="append", metavar="NAMES",
        help="by what: names of inputs or values such as %%3, with commas between them "
        "(default: all float inputs)",
    )  # fmt: skip
    parser.add_argument("--output", metavar="%N", help="which output, where there are several")
    parser.add_argument(
        "--seed", metavar="NAME", help="make the output's cotangent an input of this name"
    )
    profile_option(parser, "differentiate in this profile, whatever the module says")
    parser.add_argument("--no-verify", action="store_true", help="check neither module")
    parser.add_argument(
        "--strict-ops", action="store_true",
        help="refuse instructions without a rule also where no derivative passes",
    )  # fmt: skip
    parser.add_argument("--all", action="store_true", help="gradients of all float values")


def _grad(args: argparse.Namespace) -> int:
    from pullback.static.autodiff import GradientOptions, autodiff

    options = GradientOptions(
        verify=not args.no_verify,
        strict_ops=args.strict_ops,
        gradients="all" if args.all else "inputs",
    )
    wrt = [_target(t) for given in args.wrt for t in given.split(",")] if args.wrt else None
    output = None if args.output is None else number(args.output)
    source = Source.read(args.file)
    with blaming(source), speaking_of_options():
        made = autodiff(source.module, wrt, output, args.seed, options, args.profile)
    text = made.gradient_module.text()
    if args.json:
        return report(module=text, gradients=made.gradients)
    print(text)
    return 0


@contextmanager
def speaking_of_options() -> Iterator[None]:
    """Hints that show Python's arguments show the command's options instead."""
    try:
        yield
    except PullbackError as error:
        for argument, option in SPOKEN.items():
            error.hint = error.hint and error.hint.replace(argument, option)
        raise


def number(text: str) -> int:
    """The number of a value, as `%7` or `7`."""
    if not re.fullmatch(r"%?[0-9]{1,18}", text):
        raise Trouble(f"a value is written as %7, got {text}")
    return int(text.removeprefix("%"))


def _target(text: str) -> int | str:
    text = text.strip()
    return number(text) if text.startswith("%") else text
