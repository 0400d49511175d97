"""The manifest of a file: what pullback adds to the header of a safetensors file.

It is JSON text: the version of this format, the structure of the tree, its leaves, a checksum of
each tensor in the file, and a checksum of all of that together with the header.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from pullback.io.container import Container, ContainerEntry, ContainerLayout, container_array_bytes

VERSION = 1
KEY = "pullback"


def manifest_checksum(array: np.ndarray) -> str:
    """Return the SHA-256 of the elements of an array."""
    return hashlib.sha256(container_array_bytes(array)).hexdigest()


def manifest_text(
    body: dict[str, Any], layout: ContainerLayout, arrays: Mapping[str, np.ndarray]
) -> str:
    """Return the manifest of a file with these arrays."""
    body = {**body, "sha256": {name: manifest_checksum(arrays[name]) for name in layout.entries}}
    checksum = _manifest_header_checksum(body, layout.entries)
    return json.dumps({"version": VERSION, "checksum": checksum, **body}, separators=(",", ":"))


def _manifest_header_checksum(body: dict[str, Any], entries: Mapping[str, ContainerEntry]) -> str:
    places = sorted([[name, *entry] for name, entry in entries.items()])
    return hashlib.sha256(json.dumps([body, places], sort_keys=True).encode()).hexdigest()


def read_manifest(file: Container) -> dict[str, Any] | None:
    """Return the manifest of a file, checked; None for a file that another library wrote."""
    text = file.metadata.get(KEY)
    if text is None:
        if any(value.startswith('{"version":') for value in file.metadata.values()):
            raise file.damaged("its manifest is under a wrong name")
        return None
    try:
        body = json.loads(text)
        version, checksum = body.pop("version"), body.pop("checksum")
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        raise file.damaged("its manifest cannot be read") from None
    if version != VERSION:
        what = f"it has format {version!r}, and this version of pullback reads {VERSION}"
        raise file.refused(what)
    if checksum != _manifest_header_checksum(body, file.entries):
        raise file.damaged("its header does not have its checksum")
    if not isinstance(body.get("sha256"), dict) or body["sha256"].keys() != file.entries.keys():
        raise file.damaged("its manifest does not name its tensors")
    body["checksum"] = checksum
    return body
