"""What the array API standard lets a program ask of a library: devices, dtypes and limits."""

from __future__ import annotations

from pullback.engines.engine_registry import registered_engine
from pullback.errors import ArgumentError
from pullback.functions.data_types import isdtype
from pullback.graph.argument_checks import shown_argument
from pullback.graph.dtypes import ALL, DType, bfloat16, complex64, complex128, float16, int64
from pullback.graph.dtypes import float64 as wide
from pullback.lazy.devices import find_device, platform_in_device_names
from pullback.lazy.settings import current

_BEYOND = (float16, bfloat16)  # dtypes that the standard does not have
_KINDS = (
    "bool", "signed integer", "unsigned integer", "integral", "real floating",
    "complex floating", "numeric",
)  # fmt: skip
_MOST_DIMENSIONS = 64  # of NumPy's arrays


class NamespaceInfo:
    """What `__array_namespace_info__()` returns."""

    def capabilities(self) -> dict[str, bool | int]:
        """Return which optional behaviour of the standard is supported."""
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": _MOST_DIMENSIONS,
        }

    def default_device(self) -> str:
        """Return the device of new tensors."""
        place = current().place
        names = self.devices()
        if place is None or place.mesh.platform is None:
            return names[0]
        return f"{place.mesh.platform}:{place.mesh.devices[0]}"

    def devices(self) -> tuple[str, ...]:
        """Return the devices of this process, those of the platform in use first."""
        mode = current()
        there = registered_engine(mode.engine, mode.device)
        names = [f"{platform_in_device_names(there)}:{k}" for k in range(len(there.local_devices))]
        return (*names, "cpu:0") if platform_in_device_names(there) != "cpu" else tuple(names)

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """Return the dtypes that functions choose if none is given."""
        _check_info_device("default_dtypes", device)
        real = current().default_dtype
        return {
            "real floating": real,
            "complex floating": complex128 if real is wide else complex64,
            "integral": int64,
            "indexing": int64,
        }

    def dtypes(
        self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        """Return the dtypes of the standard, or those of a kind, by their names."""
        _check_info_device("dtypes", device)
        kinds = kind if isinstance(kind, tuple) else () if kind is None else (kind,)
        for name in kinds:
            if name not in _KINDS:
                what = f"kind must be one of {', '.join(_KINDS)}, got {shown_argument(name)}"
                raise ArgumentError(what, op="dtypes")
        found = [d for d in ALL if d not in _BEYOND]
        return {d.public: d for d in found if kind is None or isdtype(d, kinds)}


def _check_info_device(op: str, device: str | None) -> None:
    if device is not None:
        find_device(op, device)


def __array_namespace_info__() -> NamespaceInfo:
    """Return what the array API standard lets a program ask of a library.

    >>> info = pb.__array_namespace_info__()
    >>> info.default_dtypes()["real floating"], list(info.dtypes(kind="bool"))
    (f32, ['bool'])
    """
    return NamespaceInfo()


__all__ = ["__array_namespace_info__"]
