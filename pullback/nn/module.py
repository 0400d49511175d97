"""Module: the base class of layers and models, a tree whose leaves are tensors."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pullback.errors import ArgumentError
from pullback.graph.boundary import boundary_methods
from pullback.lazy.foreign_names import add_foreign_members
from pullback.lazy.host_data import asarray
from pullback.lazy.state_writes import write_state
from pullback.lazy.tensor import Tensor
from pullback.nn import module_text
from pullback.nn.module_tensors import converted_module_tensor, map_module_tensors, trainable
from pullback.nn.module_tree import (
    FROZEN,
    STATE,
    UNSAVED,
    module_tree_holds_tensors,
    register_module_tree,
)
from pullback.nn.module_walk import (
    is_module_to_walk,
    walk_named_submodules,
    walk_named_tensors,
    walk_named_values,
)
from pullback.nn.state_dict import load_state_dict_into, module_state_dict
from pullback.typing import ArrayLike

if TYPE_CHECKING:
    from pullback.nn.summary import Summary

# Runs each call of a module while `summary` does: gets the module, a function and its arguments
observer: ContextVar[Callable[[Module, Callable[..., Any], tuple, dict[str, Any]], Any] | None] = (
    ContextVar("observer", default=None)
)


class Parameter:
    """`Parameter(data)` is a tensor to be trained; any tensor that is set as an attribute is one.

    >>> pb.nn.Parameter([1.0, 2.0]).shape
    (2,)
    """

    def __new__(cls, data: ArrayLike, requires_grad: bool = True) -> Tensor:  # type: ignore[misc]
        made = asarray(data)
        if not requires_grad:
            made.requires_grad = False
        return made


class State:
    """Marks a tensor that a module sets as an attribute as state: it has no gradient, and the
    module may change it when it is called.

    >>> class Counter(pb.nn.Module):
    ...     def __init__(self):
    ...         self.calls = pb.nn.State(pb.tensor(0))
    ...     def forward(self, x):
    ...         self.calls = self.calls + 1
    ...         return x
    >>> counter = Counter()
    >>> _ = counter(pb.ones(2)), counter(pb.ones(2))
    >>> counter.calls.item()
    2
    """

    def __init__(self, value: ArrayLike) -> None:
        self.value = asarray(value)


@boundary_methods
class Module:
    """The base class of layers and models.

    Attributes that are tensors or modules, or lists, tuples and dicts of them, are the children of
    a tree; everything else is static. So a model can be an argument of every transform, and
    `pb.grad(loss)(model, x)` is a model that holds the gradients. It can also be used as an object:
    `model.parameters()` for an optimizer, `loss.backward()`, `model.train()` and `model.eval()`.

    A subclass sets its attributes in `__init__`, or is a dataclass, and defines `forward`.

    >>> class Affine(pb.nn.Module):
    ...     def __init__(self, n):
    ...         self.scale, self.shift = pb.ones(n), pb.zeros(n)
    ...     def forward(self, x):
    ...         return x * self.scale + self.shift
    >>> model = Affine(2)
    >>> model(pb.tensor([1.0, 2.0])).tolist()
    [1.0, 2.0]
    >>> pb.grad(lambda m, x: m(x).sum())(model, pb.tensor([1.0, 2.0])).scale.tolist()
    [1.0, 2.0]
    """

    training: bool
    forward: Callable[..., Any]

    unnamed: ClassVar[str] = ""  # an attribute whose entries have short names, as those of a list
    unwatched: ClassVar[frozenset[str]] = frozenset({"training"})  # a function may set it in a copy
    lost_write_hint: ClassVar[str] = (
        "It has a copy, so the write would be lost. Return the module beside the result, with\n"
        "has_aux=True in pb.grad; or call model.eval(), which leaves its state alone. In object\n"
        "style, write pb.compile(model), without the module as an argument."
    )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in ("__repr__", "__eq__", "__hash__"):  # a dataclass would define its own
            if name not in vars(cls):
                setattr(cls, name, getattr(cls, name))
        register_module_tree(cls)

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        made = super().__new__(cls)
        made.__dict__["training"] = True
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call `forward`."""
        forward = getattr(self, "forward", None)
        if forward is None:
            name = type(self).__name__
            raise ArgumentError(f"{name}: the class must define `forward`, which a call runs")
        if (see := observer.get()) is not None:
            return see(self, forward, args, kwargs)
        return forward(*args, **kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if isinstance(value, State):
            own[STATE] = own.get(STATE, frozenset()) | {name}
            value = value.value
        elif name in own.get(STATE, ()) and isinstance(own.get(name), Tensor):
            write_state(own[name], asarray(value))
            return
        elif isinstance(value, (set, frozenset, deque)) and any(
            map(module_tree_holds_tensors, value)
        ):
            what = f"{name} is a {type(value).__name__} of tensors or modules, which is no tree"
            hint = "Write a list, a tuple or a dict of them."
            raise ArgumentError(f"{type(self).__name__}: {what}", hint=hint)
        super().__setattr__(name, value)

    def register_buffer(self, name: str, value: ArrayLike | None, persistent: bool = True) -> None:
        """Set an attribute that is state: a tensor without a gradient.

        It is no part of `state_dict()` unless it is `persistent`.

        >>> model = pb.nn.Module()
        >>> model.register_buffer("mask", [1.0, 0.0])
        >>> [name for name, _ in model.named_buffers()]
        ['mask']
        """
        setattr(self, name, None if value is None else State(value))
        own = self.__dict__
        own[UNSAVED] = own.get(UNSAVED, frozenset()) - {name} | (set() if persistent else {name})
        if not own[UNSAVED]:
            del own[UNSAVED]

    # tensors and modules by name

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Return the parameters with their dotted names, each once.

        >>> [name for name, _ in pb.nn.Sequential(pb.nn.Linear(2, 3)).named_parameters()]
        ['0.weight', '0.bias']
        """
        return iter([(x.name, x.tensor) for x in walk_named_tensors(self) if not x.is_state])

    def parameters(self) -> Iterator[Tensor]:
        """Return the parameters, for an optimizer object: `pb.optim.Adam(model.parameters())`.

        The optimizer switches their `requires_grad` on, except where it was set to False.

        >>> [p.shape for p in pb.nn.Linear(2, 3).parameters()]
        [(3, 2), (3,)]
        """
        return iter([p for _, p in self.named_parameters()])

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Return the state, and tensors of integers, with their dotted names.

        >>> [name for name, _ in pb.nn.BatchNorm1d(3).named_buffers()]
        ['running_mean', 'running_var', 'num_batches_tracked']
        """
        return iter([(x.name, x.tensor) for x in walk_named_tensors(self) if x.is_state])

    def buffers(self) -> Iterator[Tensor]:
        """Return the state, and tensors of integers.

        >>> len(list(pb.nn.BatchNorm1d(3).buffers()))
        3
        """
        return iter([b for _, b in self.named_buffers()])

    def named_modules(self) -> Iterator[tuple[str, Module]]:
        """Return this module and all modules in it, each once, with their dotted names.

        >>> [name for name, _ in pb.nn.Sequential(pb.nn.Linear(2, 3)).named_modules()]
        ['', '0']
        """
        return walk_named_submodules(self)

    def modules(self) -> Iterator[Module]:
        """Return this module and all modules in it, each once.

        >>> [type(m).__name__ for m in pb.nn.Sequential(pb.nn.Linear(2, 3)).modules()]
        ['Sequential', 'Linear']
        """
        return (m for _, m in walk_named_submodules(self))

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Return the modules directly in this one, with their names.

        >>> [name for name, _ in pb.nn.Sequential(pb.nn.Linear(2, 3)).named_children()]
        ['0']
        """
        found = {
            id(m): (name, m)
            for name, m in reversed(walk_named_values(self))
            if is_module_to_walk(m)
        }
        return reversed(found.values())

    def children(self) -> Iterator[Module]:
        """Return the modules directly in this one.

        >>> [type(m).__name__ for m in pb.nn.Sequential(pb.nn.Linear(2, 3)).children()]
        ['Linear']
        """
        return (m for _, m in self.named_children())

    def num_parameters(self) -> int:
        """Return how many numbers the parameters hold.

        >>> pb.nn.Linear(2, 3).num_parameters()
        9
        """
        return sum(p.size for p in self.parameters())

    def state_dict(self) -> dict[str, Tensor]:
        """Return parameters and state by their dotted names.

        >>> sorted(pb.nn.Linear(2, 3).state_dict())
        ['bias', 'weight']
        """
        return module_state_dict(self)

    def load_state_dict(self, values: Mapping[str, ArrayLike], strict: bool = True) -> Self:
        """Set parameters and state to values by name, and return the module.

        Names, shapes and kinds of dtypes must agree; unless `strict`, names may be missing on
        either side. Nothing is changed if there is an error.

        >>> a, b = pb.nn.Linear(2, 3), pb.nn.Linear(2, 3)
        >>> b.load_state_dict(a.state_dict()).weight.tolist() == a.weight.tolist()
        True
        """
        load_state_dict_into(self, values, strict)
        return self

    # modes

    def train(self, mode: bool = True) -> Self:
        """Switch this module and those in it to training, and return it.

        >>> pb.nn.Dropout(0.5).train().training
        True
        """
        for module in self.modules():
            object.__setattr__(module, "training", bool(mode))
        return self

    def eval(self) -> Self:
        """Switch this module and those in it to evaluation, and return it.

        >>> pb.nn.Dropout(0.5).eval()(pb.ones(2)).tolist()
        [1.0, 1.0]
        """
        return self.train(False)

    def requires_grad_(self, on: bool = True) -> Self:
        """Switch `requires_grad` of all parameters on, or freeze them, and return the module.

        Frozen parameters are constants: `pb.grad` gives them the gradient `None`, and optimizers
        leave them alone.

        >>> model = pb.nn.Linear(2, 3).requires_grad_(False)
        >>> pb.grad(lambda m: m(pb.ones(2)).sum() * pb.tensor(1.0))(model).weight is None
        True
        """
        for module in self.modules():
            module.__dict__.pop(FROZEN, None)
        for p in self.parameters():
            p.requires_grad = bool(on)
        return self

    def freeze(self) -> Self:
        """Freeze all parameters, and return the module.

        >>> pb.nn.Linear(2, 3).freeze().is_frozen()
        True
        """
        return self.requires_grad_(False)

    def is_frozen(self) -> bool:
        """Whether no parameter is trained.

        >>> pb.nn.Linear(2, 3).is_frozen()
        False
        """
        return not trainable(self)

    def zero_grad(self) -> None:
        """Set the `grad` of all parameters to None.

        >>> model = pb.nn.Linear(2, 3).requires_grad_()
        >>> model(pb.ones(2)).sum().backward()
        >>> model.zero_grad()
        >>> model.weight.grad is None
        True
        """
        for p in self.parameters():
            p.zero_grad()

    # changes of all tensors

    def apply(self, f: Callable[[Module], object]) -> Self:
        """Call `f` with this module and each module in it, and return the module.

        >>> names = []
        >>> _ = pb.nn.Linear(2, 3).apply(lambda m: names.append(type(m).__name__))
        >>> names
        ['Linear']
        """
        for module in reversed(list(self.modules())):
            f(module)
        return self

    def map_tensors(self, f: Callable[[Tensor], Tensor]) -> Self:
        """Replace each parameter and state tensor by `f` of it, and return the module.

        >>> pb.nn.Linear(2, 3).map_tensors(pb.ones_like).bias.tolist()
        [1.0, 1.0, 1.0]
        """
        map_module_tensors(self, f)
        return self

    def to(self, dtype: Any = None, device: str | None = None) -> Self:
        """Convert float tensors to a dtype, move all tensors to a device; return the module.

        >>> pb.nn.Linear(2, 3).to(pb.float64).weight.dtype
        f64
        """
        return self.map_tensors(lambda x: converted_module_tensor(x, dtype, device))

    def summary(self, *args: Any, **kwargs: Any) -> Summary:
        """Return a table of the layers that a call with these arguments runs: the types of their
        results, their parameters, and their arithmetic operations (flops).

        Nothing is computed, and state does not change. Arguments are tensors or types. The
        operations of a layer are its own, without those of layers in it.

        >>> model = pb.nn.Sequential(pb.nn.Linear(784, 100), pb.relu, pb.nn.Linear(100, 10))
        >>> print(model.summary(pb.Type((32, 784), pb.float32)))
        layer     type         output        parameters       flops
        ───────────────────────────────────────────────────────────
        (model)   Sequential   f32[32,10]             0           0
        0         Linear       f32[32,100]       78,500   5,020,800
        1         Lambda       f32[32,100]            0       3,200
        2         Linear       f32[32,10]         1,010      64,320
        total                                    79,510   5,088,320
        """
        from pullback.nn.summary import summarize

        return summarize(self, args, kwargs)

    def __repr__(self) -> str:
        return module_text.show_module(self)

    def extra_repr(self) -> str:
        """Return what `repr` shows in the parentheses of a module without submodules.

        >>> pb.nn.Linear(2, 3).extra_repr()
        'in_features=2, out_features=3'
        """
        return module_text.module_settings_text(self)


add_foreign_members(Module, "Module")
register_module_tree(Module)
