"""Convolution of images: the instructions of Core v1, written with the general ones."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from pullback.errors import ArgumentError, ShapeError
from pullback.graph.kinds import SumOfProducts
from pullback.ops.conv.convolution import (
    Convolution,
    ConvolutionBackwardFilter,
    ConvolutionBackwardInput,
)
from pullback.ops.conv.geometry import Convolving, batch_one, examples
from pullback.ops.conv.windows import Padding, pairs, resolve_padding
from pullback.ops.imported import Imported
from pullback.ops.linalg.contraction import Contraction
from pullback.ops.prelude import Axis, Composite, Node, Op, Type, conjugate
from pullback.ops.samples import complexes, real
from pullback.ops.text import Applied, Text, Word

Shape = tuple[int, ...]


class ImageText(Text):
    """In text, padding is `Valid`, `Same` or `Custom([[top, bottom], [left, right]])`."""

    def written(self, op: Any, xs: Sequence[Type]) -> dict[str, Any]:
        given = op.padding
        word = Word(given.capitalize()) if isinstance(given, str) else Applied("Custom", (given,))
        return {**super().written(op, xs), "padding": word}

    def read(self, cls: Any, xs: Sequence[Type], *, padding: Any, **stated: Any) -> Op:
        return cls(padding=_stated(padding), **stated)


class ImageProduct(Composite, SumOfProducts, abstract=True):
    """Images [N, H, W, C], filters [h, w, C, F] and results [N, H', W', F]: one from two others.

    `padding` is VALID, SAME (ceil(extent / stride) results) or ((top, bottom), (left, right)).
    """

    strides: tuple[int, ...]
    padding: str | Padding
    kinds: ClassVar[str] = "fc"
    text = ImageText()
    jvp = Contraction.jvp  # type: ignore[assignment]

    def __post_init__(self) -> None:
        given = self.padding
        self.set("strides", tuple(map(int, self.strides)))
        self.set("padding", given.upper() if isinstance(given, str) else pairs(given))

    @abstractmethod
    def general(self, x: Type, y: Type) -> Convolving:
        """The general op that this one is, for operands of these types."""

    def motion(self, image: Shape, window: Shape) -> tuple[Shape, Padding]:
        """Strides and resolved padding of a filter on images."""
        if len(image) != 4 or len(window) != 4:
            what = f"needs [N, H, W, C] and [h, w, C, F], got {list(image)} and {list(window)}"
            raise ShapeError(what, code="E3002", ranks=(len(image), len(window)))
        strides = self.strides
        if len(strides) != 2 or min(strides) < 1:
            what = f"strides must be two positive numbers, got {strides}"
            raise ShapeError(what, code="E4010", strides=strides)
        return strides, resolve_padding(self.padding, image[1:3], window[:2], strides, (1, 1))

    def infer(self, x: Type, y: Type) -> Type:
        return self.general(x, y).infer(x, y)

    def expand(self, x: Node, y: Node) -> Node:
        return self.general(x.type, y.type)(x, y)

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        return self.general(*examples(xs, mapped)).batch(axis, xs, mapped)


class Conv2d(ImageProduct):
    """Convolution of images [N, H, W, C] with a filter [h, w, C, F].

    `padding` is VALID, SAME (ceil(extent / stride) results) or ((top, bottom), (left, right)).
    """

    text = ImageText(profile="core-v1")
    imported = Imported(("convolution",))

    @classmethod
    def from_hlo(cls, i: Any) -> Op | None:
        """With the padding by name, where one says it."""
        x, w = i.operand_types
        if x.rank != 4:
            return None
        found = Convolution.from_hlo(i)
        for word in ("VALID", "SAME"):
            named = resolve_padding(word, x.shape[1:3], w.shape[:2], found.strides, (1, 1))
            if named == found.padding:
                return cls(found.strides, word)
        return cls(found.strides, found.padding)

    def general(self, x: Type, w: Type) -> Convolution:
        return Convolution(*self.motion(x.shape, w.shape))

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        x, w = xs
        return [
            _image(self, x)(g, conjugate(w)) if need[0] else None,
            _filter(self, w)(conjugate(x), g) if need[1] else None,
        ]

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        general = self.general(*examples(xs, mapped))
        if all(mapped) or not axis.size:
            return general.batch(axis, xs, mapped)
        return batch_one(self, general, axis, xs, mapped)

    @classmethod
    def samples(cls) -> Any:
        x, w = real(2, 5, 6, 3), real(3, 3, 3, 4, salt=1)
        yield cls((1, 1), "VALID"), (x, w)
        yield cls((2, 2), "SAME"), (x, w)
        yield cls((2, 1), ((2, 0), (1, 3))), (x, w)
        yield cls((1, 1), "SAME"), (complexes(1, 3, 3, 1), complexes(2, 2, 1, 2, salt=1))


class Conv2dBackwardInput(ImageProduct):
    """From results and a filter to images: the transpose of Conv2d in its first operand."""

    input_shape: tuple[int, ...]

    def general(self, g: Type, w: Type) -> ConvolutionBackwardInput:
        motion = self.motion(self.input_shape, w.shape)
        return ConvolutionBackwardInput(*motion, extents=self.input_shape[1:3])

    def infer(self, g: Type, w: Type) -> Type:
        return _declared(self.input_shape, super().infer(g, w))

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        y, w = xs
        return [
            Conv2d(self.strides, self.padding)(g, conjugate(w)) if need[0] else None,
            _filter(self, w)(g, conjugate(y)) if need[1] else None,
        ]

    @classmethod
    def samples(cls) -> Any:
        for op, (x, w) in Conv2d.samples():
            yield cls(op.strides, op.padding, x.shape), (_result(op, x, w), w)


class Conv2dBackwardFilter(ImageProduct):
    """From images and results to a filter: the transpose of Conv2d in its second operand."""

    filter_shape: tuple[int, ...]

    def general(self, x: Type, g: Type) -> ConvolutionBackwardFilter:
        motion = self.motion(x.shape, self.filter_shape)
        return ConvolutionBackwardFilter(*motion, extents=self.filter_shape[:2])

    def infer(self, x: Type, g: Type) -> Type:
        return _declared(self.filter_shape, super().infer(x, g))

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        x, y = xs
        return [
            _image(self, x)(conjugate(y), g) if need[0] else None,
            Conv2d(self.strides, self.padding)(conjugate(x), g) if need[1] else None,
        ]

    @classmethod
    def samples(cls) -> Any:
        for op, (x, w) in Conv2d.samples():
            yield cls(op.strides, op.padding, w.shape), (x, _result(op, x, w))


# -- words of this family -----------------------------------------------------------------------


def _stated(padding: Any) -> str | Padding:
    """The padding that a text states."""
    if padding in (Word("Valid"), Word("Same")):
        return padding.name
    match padding:
        case Applied("Custom", (((int(), int()), (int(), int())) as given,)):
            return given
    raise ArgumentError(
        "padding must be Valid, Same or Custom([[top, bottom], [left, right]])", code="E2001"
    )


def _image(op: ImageProduct, x: Node) -> Conv2dBackwardInput:
    return Conv2dBackwardInput(op.strides, op.padding, x.type.shape)


def _filter(op: ImageProduct, w: Node) -> Conv2dBackwardFilter:
    return Conv2dBackwardFilter(op.strides, op.padding, w.type.shape)


def _declared(shape: Shape, made: Type) -> Type:
    if made.shape != tuple(shape):
        raise ShapeError(f"operands give the shape {list(made.shape)}, stated is {list(shape)}")
    return made


def _result(op: Conv2d, x: Any, w: Any) -> Any:
    """Numbers in the shape of a convolution's result."""
    general = Convolution(*op.motion(x.shape, w.shape))
    shape = (len(x), *general.counts(x.shape[1:-1], w.shape[:-2]), w.shape[-1])
    return (complexes if x.dtype.kind == "c" else real)(*shape, salt=2)
