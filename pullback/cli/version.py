"""Which versions of what are at work: `pullback --version`."""

from __future__ import annotations

import json
import platform
from importlib import metadata
from typing import Any

import pullback
from pullback.static.profiles import PROFILES

SPECIFICATION = "Core v1.0 (spec/mind-autodiff)"
OPTIONAL = {  # what can be done besides, and the package that it takes
    "conformance suites in YAML": "PyYAML",
    "NVIDIA GPUs": "jax-cuda13-plugin",
}


def versions() -> dict[str, Any]:
    """What a report of a fault should name. Nothing is imported to find it out."""
    return {
        "pullback": pullback.__version__,
        "specification": SPECIFICATION,
        "profiles": list(PROFILES),
        "python": platform.python_version(),
        "jaxlib": _installed("jaxlib"),
        "numpy": _installed("numpy"),
        "optional": {what: _installed(package) for what, package in OPTIONAL.items()},
    }


def _installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def report_version(as_json: bool) -> int:
    found = versions()
    if as_json:
        print(json.dumps(found, indent=2))
        return 0
    print(f"pullback {found['pullback']}")
    print(f"specification: {SPECIFICATION}; profiles {', '.join(found['profiles'])}")
    print(f"Python {found['python']}, jaxlib {found['jaxlib']}, numpy {found['numpy']}")
    for what, package in OPTIONAL.items():
        version = found["optional"][what]
        state = f"{package} {version}" if version else f"no, {package} is not installed"
        print(f"optional: {what}: {state}")
    return 0
