"""The metaclass of ops: classes become frozen, interned dataclasses, listed in the op table."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, dataclass_transform

from pullback.errors import ArgumentError
from pullback.graph import op_table
from pullback.graph.interned import Interned
from pullback.graph.op_table import TABLE
from pullback.ops.op_constructor import OpConstructor


def _op_class_has_fields(namespace: dict) -> bool:
    if "__annotations__" not in namespace:  # from Python 3.14 on they are computed on demand
        return any(name.startswith("__annotate") for name in namespace)
    return any("ClassVar" not in str(a) for a in namespace["__annotations__"].values())


def _convert_registered_fields(op: Any) -> None:
    """The `__post_init__` of a class that lists, in `int_fields`, parameters to make int tuples."""
    for field in op.int_fields:
        op.set(field, tuple(map(int, getattr(op, field))))


@dataclass_transform(frozen_default=True)
class OpMeta(Interned):
    """Makes every op class a frozen dataclass, and lists it in the table."""

    # Whether rules depend only on the op's parameters and on the ops and types of operands, so
    # that their results can be cached: true of pullback's ops, false of others unless stated.
    pure: bool

    def __new__(meta, name: str, bases: tuple, namespace: dict, abstract: bool = False) -> Any:
        if "int_fields" in namespace:
            namespace = {"__post_init__": _convert_registered_fields, **namespace}
        cls = super().__new__(meta, name, bases, namespace)
        if bases and not _op_class_has_fields(namespace):
            return cls
        if "__init__" not in namespace:
            type.__setattr__(cls, "__init__", OpConstructor(cls))
        return dataclasses.dataclass(init=False, repr=False, eq=False)(cls)

    def __init__(cls, name: str, bases: tuple, namespace: dict, abstract: bool = False) -> None:
        super().__init__(name, bases, namespace)
        cls.name = namespace.get("name", name)
        snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.name).lower()
        cls.title = namespace.get("title", snake)
        cls.pure = namespace.get("pure", cls.__module__.startswith("pullback."))
        if _op_class_has_fields(namespace):
            _check_registered_parameters(cls)
        _register_op_records(cls, namespace)
        cls._left_open = _missing_op_methods(cls, bases, namespace)
        if not abstract:
            _enter_into_op_table(cls)
        type.__setattr__(cls, "_made", True)

    def __setattr__(cls, name: str, value: Any) -> None:
        """Invalidate caches of rule results: a rule was replaced."""
        super().__setattr__(name, value)
        if name not in ("_plain", "_canonical", "_quick"):
            cls._forget()

    def __delattr__(cls, name: str) -> None:
        super().__delattr__(name)
        cls._forget()

    def _forget(cls) -> None:
        if "_made" not in cls.__dict__:
            op_table.op_table_changed()
            return
        kinds: list[Any] = [cls]
        for kind in kinds:  # which grows
            kinds += kind.__subclasses__()
            for op in filter(None, [ref() for ref in list(kind._canonical.values())]):
                vars(op).pop("inferred", None)
        op_table.op_table_rule_replaced()


def _check_registered_parameters(cls: Any) -> None:
    """Refuse a parameter that would hide a rule or flag of `Op`, the last op class of all."""
    op = [base for base in cls.__mro__ if isinstance(base, OpMeta)][-1]
    hidden = [f.name for f in dataclasses.fields(cls) if hasattr(op, f.name)]
    if hidden:
        what = f"{cls.name}: every op has an attribute {hidden[0]!r}; call the parameter otherwise"
        raise ArgumentError(what)


def _register_op_records(cls: Any, namespace: dict) -> None:
    """Let a class state a field of a record directly: `combine = "max"` is one of `parts`."""
    for attribute in ("text", "parts"):
        record = getattr(cls, attribute)
        fields = record.__dataclass_fields__.keys() - cls.__dataclass_fields__.keys()
        stated = {n: namespace[n] for n in namespace if n in fields}
        if stated:
            setattr(cls, attribute, dataclasses.replace(record, **stated))


def _missing_op_methods(cls: Any, bases: tuple, namespace: dict) -> tuple[str, ...]:
    """Return the abstract methods of a family that a class does not define."""
    abstract = [name for base in bases for name in getattr(base, "_left_open", ())]
    abstract += [n for n, v in namespace.items() if getattr(v, "__isabstractmethod__", False)]
    missing = [n for n in abstract if getattr(getattr(cls, n), "__isabstractmethod__", False)]
    return tuple(dict.fromkeys(missing))


def _enter_into_op_table(cls: Any) -> None:
    """List a class in the table; its module may define it again, as in a notebook."""
    if cls._left_open:
        what = f"{cls.name}: an op of its family must define {', '.join(cls._left_open)}"
        raise ArgumentError(what)
    known = TABLE.get(cls.name)
    if known is not None and known.__module__ != cls.__module__:
        raise ArgumentError(
            f"{cls.name}: there is an op of this name already, in {known.__module__}",
            hint="Programs print an op's name, so it must be unique: rename the class.",
        )
    if hasattr(cls, "check_class"):  # what else a family demands of its members
        cls.check_class()
    TABLE[cls.name] = cls
