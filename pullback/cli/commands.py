"""verify, format, canon, hash, grad, ops, export and import."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from typing import Any

from pullback.cli.diagnostics import (
    CommandDiagnostic,
    Diagnostic,
    DiagnosticSource,
    report_diagnostics,
    report_failed_diagnostics,
)
from pullback.cli.options import FILE, FILES, command_with_options, profile_option
from pullback.errors import PullbackError
from pullback.interop.stablehlo import from_stablehlo, to_stablehlo
from pullback.static.autodiff import GradientOptions, autodiff
from pullback.static.descriptions import described_instructions
from pullback.static.literals import type_literal
from pullback.static.module import IRModule, canonicalise, fingerprint, verify
from pullback.static.profiles import EXTENDED

AS_OPTIONS = {  # how the command line writes the arguments that hints show
    'write profile="extended"': "use --profile extended",
    "seed=True": "--seed NAME",
    "output=": "--output %",
}


def register_commands(commands: Any) -> None:
    verify_help = "check modules against the rules of the IR"
    parser = command_with_options(commands, "verify", _verify_command, verify_help, files=FILES)
    profile_option(parser, "check against this profile instead of the module's own")

    format_help = "print a module in the standard layout"
    parser = command_with_options(
        commands, "format", _format_command, format_help, "Comments are dropped.", file=FILE
    )
    check_help = "print no module; exit with 1 if the layout differs"
    parser.add_argument("--check", action="store_true", help=check_help)

    command_with_options(
        commands, "canon", _canon_command, "print a module in its canonical form", file=FILE
    )
    hash_help = "print fingerprints, which are equal for equivalent modules"
    command_with_options(commands, "hash", _hash_command, hash_help, files=FILES)
    _register_grad_command(commands)

    parser = command_with_options(
        commands, "ops", _ops_command, "list the instructions with profile and derivative"
    )
    parser.add_argument("name", nargs="*", help="list only these, with an example of each")
    profile_option(parser, "list only the instructions and derivatives of this profile")

    parser = command_with_options(
        commands, "export", _export_command, "print a module as StableHLO", file=FILE
    )
    portable_help = "write bytes that later versions can read"
    parser.add_argument("--portable", action="store_true", help=portable_help)
    parser.add_argument("--out", metavar="FILE", help="write to a file")
    program = "StableHLO as text or portable bytes, or - for stdin"
    command_with_options(
        commands, "import", _import_command, "print StableHLO as a module", file=program
    )


def _register_grad_command(commands: Any) -> None:
    help = "print a module that also computes gradients"
    more = "The gradients of one output follow the module's outputs."
    parser = command_with_options(commands, "grad", _grad_command, help, more, file=FILE)
    parser.add_argument(
        "--wrt", action="append", metavar="NAMES",
        help="differentiate with respect to these: names of inputs or values such as %%3, "
        "separated by commas (default: all float inputs)",
    )  # fmt: skip
    parser.add_argument("--output", metavar="%N", help="the output, if there are several")
    seed_help = "make the output's cotangent an input of this name"
    parser.add_argument("--seed", metavar="NAME", help=seed_help)
    profile_option(parser, "differentiate in this profile instead of the module's own")
    parser.add_argument("--no-verify", action="store_true", help="verify neither module")
    parser.add_argument(
        "--strict-ops", action="store_true",
        help="refuse instructions without a derivative rule even if no derivative needs one",
    )  # fmt: skip
    parser.add_argument("--all", action="store_true", help="give gradients of all float values")


def _print_command(args: argparse.Namespace, module: IRModule, **results: Any) -> int:
    text = module.text()
    if args.json:
        return report_diagnostics(module=text, **results)
    print(text)
    return 0


def _command_for_each(
    args: argparse.Namespace, work: Callable[[IRModule], dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[Diagnostic]]:
    """The result for each file, and the errors: one bad file does not hide the others."""
    found, failures = [], []
    if args.file.count("-") > 1:
        raise CommandDiagnostic("the standard input can be read only once")
    for path in args.file:
        try:
            with DiagnosticSource(path) as source:
                found.append({"file": source.name, **work(source.module)})
        except Diagnostic as failure:
            failures.append(failure)
    return found, failures


def _verify_command(args: argparse.Namespace) -> int:
    def checked(module: IRModule) -> dict[str, Any]:
        if args.profile:
            module = IRModule(module.instructions, module.outputs, args.profile, module.end)
        verify(module)
        return {"profile": module.profile, **_summary_command(module)}

    found, failures = _command_for_each(args, checked)
    return report_failed_diagnostics(failures, args.json, modules=found)


def _summary_command(module: IRModule) -> dict[str, Any]:
    graph = module.graph
    pairs = zip(graph.names, graph.inputs, strict=True)
    return {
        "instructions": len(module.instructions),
        "inputs": [{"name": name, "type": type_literal(x.type)} for name, x in pairs],
        "outputs": [type_literal(y.type) for y in graph.outputs],
    }


def _format_command(args: argparse.Namespace) -> int:
    with DiagnosticSource(args.file) as source:
        text = source.module.text()
    same = source.data.decode("utf-8").rstrip("\n") == text
    if args.json:
        report_diagnostics(module=text, formatted=same)
    elif not args.check:
        print(text)
    elif not same:
        print(f"{source.name} is not in the standard layout")
    return 1 if args.check and not same else 0


def _canon_command(args: argparse.Namespace) -> int:
    with DiagnosticSource(args.file) as source:
        made, values = canonicalise(source.module, with_map=True)
    return _print_command(args, made, values=values)


def _hash_command(args: argparse.Namespace) -> int:
    found, failures = _command_for_each(args, lambda module: {"fingerprint": fingerprint(module)})
    if not args.json:
        for one in found:
            print(f"{one['fingerprint']}  {one['file']}")
    return report_failed_diagnostics(failures, args.json, modules=found)


def _grad_command(args: argparse.Namespace) -> int:
    kind = "all" if args.all else "inputs"
    options = GradientOptions(not args.no_verify, args.strict_ops, kind)
    wrt = (
        [_grad_command_target(t) for given in args.wrt for t in given.split(",")]
        if args.wrt
        else None
    )
    output = None if args.output is None else _grad_command_number(args.output)
    with DiagnosticSource(args.file) as source:
        try:
            made = autodiff(source.module, wrt, output, args.seed, options, args.profile)
        except PullbackError as error:
            for argument, option in AS_OPTIONS.items():
                error.hint = error.hint and error.hint.replace(argument, option)
            raise
    return _print_command(args, made.gradient_module, gradients=made.gradients)


def _grad_command_number(text: str) -> int:
    """Parse the number of a value, `%7` or `7`."""
    if not re.fullmatch(r"%?[0-9]{1,18}", text):
        raise CommandDiagnostic(f"a value must be written as %7, got {text}")
    return int(text.removeprefix("%"))


def _grad_command_target(text: str) -> int | str:
    text = text.strip()
    return _grad_command_number(text) if text.startswith("%") else text


def _ops_command(args: argparse.Namespace) -> int:
    found = described_instructions(args.name or None, args.profile or EXTENDED)
    unknown = sorted(set(args.name) - {e.name for e in found})
    if unknown:
        within = f" in the profile {args.profile}" if args.profile else ""
        raise CommandDiagnostic(f"there is no instruction {unknown[0]}{within}")
    if args.json:
        return report_diagnostics(instructions=[e._asdict() for e in found])
    width = max((len(e.name) for e in found), default=0)
    for e in found:
        derivative = "no derivative" if e.derivative is None else "; ".join(e.derivative)
        print(f"{e.name:{width}}  {e.profile:16}  {derivative}")
        if args.name:
            print(f"    {e.summary}\n    {e.example}\n    dtypes: {e.types}")
    return 0


def _export_command(args: argparse.Namespace) -> int:
    if args.portable and not args.out and (args.json or sys.stdout.isatty()):
        raise CommandDiagnostic("--portable writes bytes: name a file with --out")
    with DiagnosticSource(args.file) as source:
        made = to_stablehlo(source.module, portable=args.portable)
    if args.out:
        try:
            with open(args.out, "wb") as file:
                file.write(made if isinstance(made, bytes) else f"{made.rstrip()}\n".encode())
        except OSError as error:
            raise CommandDiagnostic(f"cannot write {args.out}: {error.strerror or error}") from None
        return report_diagnostics(file=args.out) if args.json else 0
    if args.json:
        return report_diagnostics(stablehlo=made)
    if isinstance(made, bytes):
        sys.stdout.buffer.write(made)
    else:
        print(made.rstrip())
    return 0


def _import_command(args: argparse.Namespace) -> int:
    with DiagnosticSource(args.file) as source:
        made = from_stablehlo(source.data)
    return _print_command(args, made)
