"""Convolution of images: the instructions of Core v1, expanded to the general convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pullback.errors import ArgumentError, ShapeError
from pullback.graph.op_kinds import SumOfProductsKind
from pullback.ops.conv.convolution import Convolution
from pullback.ops.conv.geometry import (
    ConvolutionGeometry,
    GeometryRoles,
    Shape,
    batch_one_geometry,
    geometry_example_types,
)
from pullback.ops.conv.windows import Padding, resolve_window_padding, window_pairs
from pullback.ops.linalg.contraction import Contraction
from pullback.ops.prelude import Axis, Composite, Imported, Node, Op, Type
from pullback.ops.samples import complex_samples, real
from pullback.ops.text import OpTextApplied, OpTextWord, Text


class Conv2dText(Text):
    """In text, padding is `Valid`, `Same` or `Custom([[top, bottom], [left, right]])`."""

    def written(self, op: Any, xs: Sequence[Type]) -> dict[str, Any]:
        given = op.padding
        word = (
            OpTextWord(given.capitalize())
            if isinstance(given, str)
            else OpTextApplied("Custom", (given,))
        )
        return {**super().written(op, xs), "padding": word}

    def read(self, cls: Any, xs: Sequence[Type], *, padding: Any, **stated: Any) -> Op:
        return cls(padding=_stated_conv2d_padding(padding), **stated)

    def least_profile(self, op: Any, xs: Sequence[Type]) -> str:
        """Core v1 adds rows and columns; negative padding, which removes some, is an extension."""
        removes = not isinstance(op.padding, str) and min(map(min, op.padding)) < 0
        return "extended" if removes else super().least_profile(op, xs)


class Conv2dProduct(GeometryRoles, Composite, SumOfProductsKind, abstract=True):  # type: ignore[misc]
    """Images [N, H, W, C], filters [h, w, C, F] and results [N, H', W', F]: one from two others.
    `padding` is VALID, SAME (ceil(size / stride) results) or ((top, bottom), (left, right))."""

    strides: tuple[int, ...]
    padding: str | Padding
    kinds: ClassVar[str] = "fc"
    family: ClassVar[dict[str, Any]] = {}
    text = Conv2dText()
    jvp = Contraction.jvp  # type: ignore[assignment]

    def __post_init__(self) -> None:
        given = self.padding
        self.set("strides", tuple(map(int, self.strides)))
        self.set("padding", given.upper() if isinstance(given, str) else window_pairs(given))

    def giving(self, role: str, shape: Shape) -> Conv2dProduct:
        stated = () if role == "result" else (shape,)
        return self.family[role](self.strides, self.padding, *stated)

    @property
    def stated(self) -> Shape:
        """The stated shape of the value that it gives; a result's shape follows from operands."""
        return tuple(getattr(self, f"{self.gives}_shape", ()))

    def general(self, x: Type, y: Type) -> ConvolutionGeometry:
        """The general convolution that it is, for operands of these types."""
        shapes = dict(zip(self.operands, (x.shape, y.shape), strict=True))
        shapes.setdefault(self.gives, self.stated)
        image, window = shapes["input"], shapes["filter"]
        if len(image) != 4 or len(window) != 4:
            what = f"needs [N, H, W, C] and [h, w, C, F], got {list(image)} and {list(window)}"
            raise ShapeError(what, code="E3002", ranks=(len(image), len(window)))
        strides = self.strides
        if len(strides) != 2 or min(strides) < 1:
            what = f"strides must be two positive numbers, got {strides}"
            raise ShapeError(what, code="E4010", strides=strides)
        padding = resolve_window_padding(self.padding, image[1:3], window[:2], strides, (1, 1))
        return Convolution(strides, padding).giving(self.gives, self.stated)

    def infer(self, x: Type, y: Type) -> Type:
        out = self.general(x, y).infer(x, y)
        if self.stated and out.shape != self.stated:
            what = f"{self.gives}_shape must be {list(out.shape)} for these operands"
            raise ShapeError(f"{what}, got {list(self.stated)}")
        return out

    def expand(self, x: Node, y: Node) -> Node:
        return self.general(x.type, y.type)(x, y)

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        return self.general(*geometry_example_types(xs, mapped)).batch(axis, xs, mapped)


class ImageConvolution(Conv2dProduct):
    """Convolution of images [N, H, W, C] with a filter [h, w, C, F].

    `padding` is VALID, SAME (ceil(size / stride) results) or ((top, bottom), (left, right)).
    """

    name = "Conv2d"  # in the static IR
    gives, operands = "result", ("input", "filter")
    text = Conv2dText(("strides", "padding"), profile="core-v1")
    imported = Imported(("convolution",))

    @classmethod
    def from_hlo(cls, i: Any) -> Op | None:
        """With the padding by name, where one says it."""
        x, w = i.operand_types
        if x.rank != 4:
            return None
        found = Convolution.from_hlo(i)
        for word in ("VALID", "SAME"):
            named = resolve_window_padding(word, x.shape[1:3], w.shape[:2], found.strides, (1, 1))
            if named == found.padding:
                return cls(found.strides, word)
        return cls(found.strides, found.padding)

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        general = self.general(*geometry_example_types(xs, mapped))
        if all(mapped) or not axis.size:
            return general.batch(axis, xs, mapped)
        return batch_one_geometry(self, general, axis, xs, mapped)

    @classmethod
    def samples(cls) -> Any:
        x, w = real(2, 5, 6, 3), real(3, 3, 3, 4, salt=1)
        yield cls((1, 1), "VALID"), (x, w)
        yield cls((2, 2), "SAME"), (x, w)
        yield cls((2, 1), ((2, 0), (1, 3))), (x, w)
        yield (
            cls((1, 1), "SAME"),
            (complex_samples(1, 3, 3, 1), complex_samples(2, 2, 1, 2, salt=1)),
        )


class Conv2dBackwardInput(Conv2dProduct):
    """Images from results and a filter: the transpose of Conv2d in its first operand."""

    input_shape: tuple[int, ...]
    text = Conv2dText(("input_shape", "strides", "padding"))
    gives, operands = "input", ("result", "filter")


class Conv2dBackwardFilter(Conv2dProduct):
    """A filter from images and results: the transpose of Conv2d in its second operand."""

    filter_shape: tuple[int, ...]
    text = Conv2dText(("filter_shape", "strides", "padding"))
    gives, operands = "filter", ("input", "result")


Conv2dProduct.family.update(
    result=ImageConvolution, input=Conv2dBackwardInput, filter=Conv2dBackwardFilter
)


def _stated_conv2d_padding(padding: Any) -> str | Padding:
    """The padding that a text states."""
    if padding in (OpTextWord("Valid"), OpTextWord("Same")):
        return padding.name
    match padding:
        case OpTextApplied("Custom", (((int(), int()), (int(), int())) as given,)):
            return given
    what = "padding must be Valid, Same or Custom([[top, bottom], [left, right]])"
    raise ArgumentError(what, code="E2001")
