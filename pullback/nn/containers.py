"""Modules that hold other modules: in a row, in a list, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, overload

from pullback.errors import ArgumentError
from pullback.graph.boundary import boundary_methods
from pullback.nn.module import Module
from pullback.nn.module_walk import is_module_to_walk


class Lambda(Module):
    """A function as a module, such as an activation in `Sequential`.

    >>> pb.nn.Lambda(pb.relu)(pb.tensor([-1.0, 1.0])).tolist()
    [0.0, 1.0]
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


@boundary_methods
class ModuleList(Module):
    """A list of modules.

    >>> layers = pb.nn.ModuleList([pb.nn.Linear(2, 2) for _ in range(3)])
    >>> len(layers), layers[0].weight.shape
    (3, (2, 2))
    """

    unnamed: ClassVar[str] = "layers"

    def __init__(self, layers: Iterable[Any] = ()) -> None:
        self.layers = [self._layer(x) for x in layers]

    def _layer(self, x: Any) -> Any:
        if is_module_to_walk(x):
            return x
        if callable(x) and not isinstance(x, type):
            return Lambda(x)
        what = f"a layer must be a module or a function, got {type(x).__name__}"
        hint = f"Write {x.__name__}() to create one." if isinstance(x, type) else None
        raise ArgumentError(f"{type(self).__name__}: {what}", hint=hint)

    def append(self, layer: Callable[..., Any]) -> None:
        """Add a layer at the end.

        >>> layers = pb.nn.ModuleList()
        >>> layers.append(pb.nn.Linear(2, 3))
        >>> len(layers)
        1
        """
        self.layers.append(self._layer(layer))

    def extend(self, layers: Iterable[Callable[..., Any]]) -> None:
        """Add layers at the end.

        >>> layers = pb.nn.ModuleList()
        >>> layers.extend([pb.nn.Linear(2, 3), pb.nn.Linear(3, 1)])
        >>> len(layers)
        2
        """
        self.layers.extend([self._layer(x) for x in layers])

    def insert(self, i: int, layer: Callable[..., Any]) -> None:
        """Add a layer before position `i`.

        >>> layers = pb.nn.ModuleList([pb.nn.Linear(3, 1)])
        >>> layers.insert(0, pb.nn.Linear(2, 3))
        >>> layers[0].weight.shape
        (3, 2)
        """
        self.layers.insert(i, self._layer(layer))

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.layers)

    @overload
    def __getitem__(self, i: int) -> Any: ...
    @overload
    def __getitem__(self, i: slice) -> ModuleList: ...
    def __getitem__(self, i: int | slice) -> Any:
        return type(self)(self.layers[i]) if isinstance(i, slice) else self.layers[i]

    def __setitem__(self, i: int, layer: Callable[..., Any]) -> None:
        self.layers[i] = self._layer(layer)

    def __delitem__(self, i: int | slice) -> None:
        del self.layers[i]


@boundary_methods
class Sequential(ModuleList):
    """Modules and functions that are applied one after another.

    >>> model = pb.nn.Sequential(pb.nn.Linear(2, 3), pb.relu, pb.nn.Linear(3, 1))
    >>> model(pb.ones((5, 2))).shape
    (5, 1)
    """

    def __init__(self, *layers: Any) -> None:
        if len(layers) == 1 and isinstance(layers[0], (list, tuple)):
            layers = tuple(layers[0])
        super().__init__(layers)

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


@boundary_methods
class ModuleDict(Module):
    """Modules by name.

    >>> heads = pb.nn.ModuleDict({"mean": pb.nn.Linear(4, 1), "scale": pb.nn.Linear(4, 1)})
    >>> heads["mean"](pb.ones(4)).shape
    (1,)
    """

    unnamed: ClassVar[str] = "layers"

    def __init__(self, layers: Mapping[str, Module] | None = None) -> None:
        self.layers = dict(layers or {})

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[str]:
        return iter(self.layers)

    def __contains__(self, name: object) -> bool:
        return name in self.layers

    def __getitem__(self, name: str) -> Module:
        return self.layers[name]

    def __setitem__(self, name: str, layer: Module) -> None:
        self.layers[name] = layer

    def __delitem__(self, name: str) -> None:
        del self.layers[name]

    def keys(self) -> Iterable[str]:
        """Return the names.

        >>> list(pb.nn.ModuleDict({"a": pb.nn.Identity()}).keys())
        ['a']
        """
        return self.layers.keys()

    def values(self) -> Iterable[Module]:
        """Return the modules.

        >>> len(list(pb.nn.ModuleDict({"a": pb.nn.Identity()}).values()))
        1
        """
        return self.layers.values()

    def items(self) -> Iterable[tuple[str, Module]]:
        """Return the names with their modules.

        >>> [name for name, _ in pb.nn.ModuleDict({"a": pb.nn.Identity()}).items()]
        ['a']
        """
        return self.layers.items()
