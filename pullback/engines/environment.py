"""Environment variables: all that pullback reads, each with a parser that refuses other values.

An empty variable counts as one that is not set.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any, NamedTuple

from pullback.engines.byte_sizes import bytes_of
from pullback.errors import ArgumentError


class EnvironmentVariable(NamedTuple):
    """What the text of a variable must be, and a parser that raises a ValueError for others."""

    wanted: str
    parse: Callable[[str], Any]


def _environment_flag(text: str) -> bool:
    return {"1": True, "true": True, "on": True, "yes": True,
            "0": False, "false": False, "off": False, "no": False}[text.lower()]  # fmt: skip


def _environment_count(least: int) -> EnvironmentVariable:
    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise ValueError(text)
        return int(text)

    return EnvironmentVariable(
        "a positive integer" if least else "an integer that is not negative", parse
    )


def _environment_choice(*options: str) -> EnvironmentVariable:
    def parse(text: str) -> str:
        return {option: option for option in options}[text.lower()]

    return EnvironmentVariable(" or ".join(map(repr, options)), parse)


def _environment_words(*known: str) -> EnvironmentVariable:
    def parse(text: str) -> tuple[str, ...]:
        words = [word.strip() for word in text.split(",")]
        return tuple([{k: k for k in known}[word] for word in words if word])

    return EnvironmentVariable(
        "a list of words, separated by commas, out of " + ", ".join(known), parse
    )


def _environment_seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < math.inf:
        raise ValueError(text)
    return seconds


_FLAG = EnvironmentVariable("1 or 0", _environment_flag)
_SIZE = EnvironmentVariable('a size such as 4096 or "500M"', bytes_of)
_TEXT = EnvironmentVariable("text", str)

VARIABLES = {
    "PULLBACK_CACHE": _FLAG,
    "PULLBACK_CACHE_DIR": _TEXT,
    "PULLBACK_CACHE_MEMORY": _SIZE,
    "PULLBACK_CACHE_SIZE": _SIZE,
    "PULLBACK_CHECK_REPLICAS": _FLAG,
    "PULLBACK_CPU_DEVICES": _environment_count(1),
    "PULLBACK_EAGER": _FLAG,
    "PULLBACK_ENGINE": _environment_choice("xla", "reference"),
    "PULLBACK_KEEP_MEMORY": _SIZE,
    "PULLBACK_KERNELS": _environment_choice("1", "0", "avx512", "avx2", "baseline"),
    "PULLBACK_LOG": _environment_words("compiles"),
    "PULLBACK_NATIVE": _FLAG,
    "PULLBACK_PATIENCE": EnvironmentVariable("a positive number of seconds", _environment_seconds),
    "PULLBACK_PIN_THREADS": _FLAG,
    "PULLBACK_PLATFORM": _environment_choice("cpu", "cuda"),
    "PULLBACK_THREADS": _environment_count(1),
    "PULLBACK_TRACEBACK": _environment_choice("short", "full"),
    "PULLBACK_VERIFY_SHAPES": _FLAG,
    # `initialize` checks these together with its arguments
    "PULLBACK_COORDINATOR": _TEXT,
    "PULLBACK_LAUNCHER": _TEXT,
    "PULLBACK_LISTEN": _TEXT,
    "PULLBACK_NUM_PROCESSES": _TEXT,
    "PULLBACK_PROCESS_ID": _TEXT,
    "PULLBACK_SECRET": _TEXT,
}


def environment_variable(name: str, default: Any) -> Any:
    """Return the value of a variable; `default` if it is not set."""
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    wanted, parse = VARIABLES[name]
    try:
        return parse(text)
    except (ValueError, KeyError, OverflowError):
        raise ArgumentError(
            f"the environment variable {name} must be {wanted}, got {text!r}"
        ) from None


def check_environment() -> None:
    """Raise if a variable has a value without a meaning."""
    for name in VARIABLES:
        environment_variable(name, None)
