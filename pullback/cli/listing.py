"""ops: the instructions that there are, with profile and derivative."""

from __future__ import annotations

import argparse
from typing import Any

from pullback.cli.diagnostics import report
from pullback.cli.options import command, profile_option
from pullback.cli.source import Trouble
from pullback.static.profiles import EXTENDED


def register(commands: Any) -> None:
    parser = command(commands, "ops", _ops, "list the instructions, with profile and derivative")
    parser.add_argument("name", nargs="*", help="only these, with an example of each")
    profile_option(parser, "only those that this profile has, with the derivatives that it has")


def _ops(args: argparse.Namespace) -> int:
    from pullback.cli.reference import entries

    found = entries(args.name or None, args.profile or EXTENDED)
    unknown = sorted(set(args.name) - {e.name for e in found})
    if unknown:
        within = f" in the profile {args.profile}" if args.profile else ""
        raise Trouble(f"there is no instruction {unknown[0]}{within}")
    if args.json:
        return report(instructions=[e._asdict() for e in found])
    width = max((len(e.name) for e in found), default=0)
    for e in found:
        print(f"{e.name:{width}}  {e.profile:16}  {e.derivative_text}")
        if args.name:
            print(f"    {e.summary}\n    {e.example}\n    element types: {e.types}")
    return 0
