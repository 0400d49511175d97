"""verify, format, canon and hash: what can be said about modules without running them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from pullback.cli.diagnostics import Diagnostic, blaming, report, report_failures
from pullback.cli.options import command, profile_option
from pullback.cli.source import Source, Trouble
from pullback.static.literals import type_text
from pullback.static.module import Module, canonicalise, fingerprint, verify


def register(commands: Any) -> None:
    verify_ = command(commands, "verify", _verify, "check modules against the IR's rules")
    profile_option(verify_, "check against this profile, whatever the module says")
    format_ = command(
        commands, "format", _format, "print a module in the one form that there is",
        description="Print a module in the one form that there is. Comments are not part of it.",
    )  # fmt: skip
    format_.add_argument(
        "--check", action="store_true", help="print nothing; the status is 1 if the form differs"
    )
    canon = command(commands, "canon", _canon, "print a module in its canonical form")
    hash_ = command(
        commands, "hash", _hash, "print fingerprints: equal for modules that say the same"
    )
    for parser in (format_, canon):
        parser.add_argument("file", help="a module, or - for the standard input")
    for parser in (verify_, hash_):
        parser.add_argument("file", nargs="+", help="modules; - is the standard input")


def _for_each(
    args: argparse.Namespace, work: Callable[[Module], dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[Diagnostic]]:
    """What is found about each file, and what is wrong: one bad file does not hide the others."""
    found, failures = [], []
    if args.file.count("-") > 1:
        raise Trouble("the standard input can be read once")
    for path in args.file:
        source = Source.read(path)
        try:
            with blaming(source):
                found.append({"file": source.name, **work(source.module)})
        except Diagnostic as failure:
            failures.append(failure)
    return found, failures


def _verify(args: argparse.Namespace) -> int:
    def checked(module: Module) -> dict[str, Any]:
        module = in_profile(module, args.profile)
        verify(module)
        return {"profile": module.profile, **summary(module)}

    found, failures = _for_each(args, checked)
    return report_failures(failures, args.json, modules=found)


def in_profile(module: Module, profile: str | None) -> Module:
    """The module as one of another profile."""
    if profile is None or profile == module.profile:
        return module
    return Module(module.instructions, module.outputs, profile, module.end)


def summary(module: Module) -> dict[str, Any]:
    """Its size, its inputs and its outputs."""
    graph = module.graph
    pairs = zip(graph.names, graph.inputs, strict=True)
    return {
        "instructions": len(module.instructions),
        "inputs": [{"name": name, "type": type_text(x.type)} for name, x in pairs],
        "outputs": [type_text(y.type) for y in graph.outputs],
    }


def _format(args: argparse.Namespace) -> int:
    source = Source.read(args.file)
    with blaming(source):
        text = source.module.text()
    same = source.data.decode("utf-8").rstrip("\n") == text
    if args.json:
        return report(module=text, formatted=same) or _status(args.check, same)
    if not args.check:
        print(text)
    elif not same:
        print(f"{source.name} is not in the printed form")
    return _status(args.check, same)


def _status(checking: bool, same: bool) -> int:
    return 1 if checking and not same else 0


def _canon(args: argparse.Namespace) -> int:
    source = Source.read(args.file)
    with blaming(source):
        made, places = canonicalise(source.module, with_map=True)
    if args.json:
        return report(module=made.text(), values=places)
    print(made.text())
    return 0


def _hash(args: argparse.Namespace) -> int:
    found, failures = _for_each(args, lambda module: {"fingerprint": fingerprint(module)})
    if not args.json:
        for one in found:
            print(f"{one['fingerprint']}  {one['file']}")
    return report_failures(failures, args.json, modules=found)
