"""The engines of this process, by name, platform and mesh."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Literal, cast, overload

from pullback.engines import fork
from pullback.engines.mesh import MeshEngine, SimulatedMeshEngine
from pullback.engines.protocols import Engine
from pullback.engines.reference import ReferenceEngine
from pullback.errors import EngineError, PullbackError
from pullback.graph.source_lines import user_line
from pullback.sharding.mesh import DeviceMesh

if TYPE_CHECKING:
    from pullback.engines.xla.engine import XlaEngine
    from pullback.lazy.settings import Settings

_engines: dict[tuple[str, str | None], Engine] = {}
_meshes: dict[tuple[Engine, DeviceMesh], MeshEngine] = {}
_creating = threading.Lock()
fork.hold_during_fork(_creating)
ON = {"reference": "cpu"}  # the platform of devices of an engine that names its own differently


@overload
def registered_engine(name: Literal["xla"], platform: str | None = None) -> XlaEngine: ...


@overload
def registered_engine(name: str, platform: str | None = None) -> Engine: ...


def registered_engine(name: str, platform: str | None = None) -> Engine:
    """Return the engine of that name for a platform; create it at the first request."""
    found = _engines.get((name, platform))
    if found is None:
        with _creating:
            found = _engines.get((name, platform)) or _create_engine(name, platform)
            _engines[name, platform] = found
    return found


def _create_engine(name: str, platform: str | None) -> Engine:
    # One engine per platform, whatever name it is requested by.
    for (other, _), known in _engines.items():
        if other == name and (platform or known.platform) in (known.platform, ON.get(name)):
            return known
    if name == "reference":
        if platform not in (None, ON[name]):
            raise EngineError(f"the reference engine has no platform {platform!r}", code="E6002")
        return ReferenceEngine()
    fork.refuse_forked_data_worker()
    from pullback.engines.xla.engine import XlaEngine  # heavy: loads jaxlib

    return XlaEngine(platform)


def created_engines(name: str) -> list[Engine]:
    """Return the engines of that name that are in use, one for each platform."""
    return list({id(e): e for (known, _), e in _engines.items() if known == name}.values())


def engine_is_created(name: str) -> bool:
    """Whether an engine of that name is in use."""
    return any(known == name for known, _ in _engines)


def engine_for(settings: Settings, mesh: DeviceMesh | None) -> Engine:
    """Return the engine for values on `mesh`, or on a single device if it is None."""
    if mesh is None:
        return registered_engine(settings.engine, settings.device)
    return _registered_mesh_engine(settings, mesh)


def _registered_mesh_engine(settings: Settings, mesh: DeviceMesh) -> MeshEngine:
    single = registered_engine(settings.engine, mesh.platform or settings.device)
    found = _meshes.get((single, mesh))
    if found is None:
        found = _meshes.setdefault((single, mesh), _create_registered_mesh_engine(mesh, single))
    return found


def _create_registered_mesh_engine(mesh: DeviceMesh, single: Engine) -> MeshEngine:
    if isinstance(single, ReferenceEngine):
        return SimulatedMeshEngine(mesh, single)
    from pullback.engines.xla.xla_mesh import XlaMesh  # heavy: loads jaxlib

    try:
        return XlaMesh(mesh, cast("XlaEngine", single))
    except PullbackError as error:  # there are fewer devices
        raise error.at(None, user_line()) from None


def engine_spans_processes(settings: Settings, mesh: DeviceMesh | None) -> bool:
    """Whether other processes must start a program on `mesh`, too."""
    return mesh is not None and _registered_mesh_engine(settings, mesh).spans_processes
