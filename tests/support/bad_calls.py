"""Bad calls: every public function with good arguments, one of which is replaced by nonsense.

What is good and what is nonsense follows from a parameter's annotation and name, so that a new
function is included as soon as it is public; `GOOD` has the arguments that need a special value.
"""

from __future__ import annotations

import inspect
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import pullback as pb
from pullback.lazy import in_place_methods

NAN, INF = float("nan"), float("inf")
MOST_EVALUATED = 10**6  # elements of a result that is computed


class Stranger:
    """An object that means nothing to anyone."""

    def __repr__(self) -> str:
        return "<stranger>"


def x() -> pb.Tensor:
    return pb.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


def vector() -> pb.Tensor:
    return pb.tensor([1.0, 2.0, 3.0])


def square() -> pb.Tensor:
    return pb.tensor([[2.0, 1.0], [1.0, 3.0]])


def image() -> pb.Tensor:
    return pb.ones((1, 4, 4, 2))


def whole() -> pb.Tensor:
    return pb.tensor([[1, 2, 3], [4, 5, 6]])


def _counts() -> pb.Tensor:
    return pb.tensor([1, 2])


def mesh() -> Any:
    return pb.DeviceMesh((1,), ("d",))


def total(v: Any) -> Any:
    return (v * v).sum()


def module() -> Any:
    return pb.ir.from_function(lambda v: (v * v).sum(), vector())


# -- what is nonsense for each kind of parameter --------------------------------------------------

BAD: dict[str, list[Any]] = {
    "array": ["abc", None, Stranger(), {"a": 1}, {1, 2}, len, b"ab", [[1, 2], [3]], ["a"],
              np.array(["a", "b"]), np.array([None]), slice(2), int, (1, "b")],
    "flag": ["yes", "False", "", 0.5, None, [], [True], NAN, Stranger(), {}, 2, (1,)],
    "count": [2.5, 2.0, NAN, INF, "3", None, [1.5], 1j, Stranger(), {}, slice(2), -(2**70)],
    "size": [2.5, 2.0, NAN, INF, "3", [2.5], ["a"], -2, (-2,), 1j, Stranger(), {}, (None,), 2**70],
    "axis": [2.5, 1.0, NAN, "0", "x", 99, -99, Stranger(), 1j, {}, [[0]], 2**70, ("a",)],
    "dtype": ["float12", "", 3, Stranger(), [], 2.5, b"f4", ("float32",), object],
    "number": ["x", "", [], Stranger(), {}, ("a",), len],
    "text": [3, Stranger(), 2.5, [], {}, NAN],
    "function": [3, "f", None, Stranger(), 2.5, [], {}],
    "choice": ["zz", 3, None, Stranger(), [], NAN],
    "argnums": [2.5, "x", 99, -99, (0, 0), NAN, Stranger(), [0.0], 2**70],
    "sequence": [3, 2.5, "ab", Stranger(), [2.5, 1], ["a", "b"], NAN, [None, None]],
    "arrays": [3, "ab", Stranger(), [None, None], ["a", "b"], {"a": 1}, [], len],
    "mesh": [3, "d", None, Stranger(), [], {}],
    "spec": [3, 2.5, Stranger(), [1], "dd"],
    "index": ["a", 2.5, NAN, Stranger(), {}, 99, -99, (0, 0, 0), ("a",), (1.5,), [2.5], slice("a"),
              slice(1.5), {1}, b"a", 1j],
    "module": [3, None, "inputs:", Stranger(), [], {}],
    "program": [3, None, Stranger(), [], {}, "nonsense", b"nonsense"],
    "tree": [],
    "anything": [],
}  # fmt: skip

# Values that may mean something, but must neither crash nor hang.
LARGE: dict[str, list[Any]] = {
    "count": [2**31, 2**40], "size": [2**31, 2**40, (2**31, 2**31)], "index": [2**40],
    "number": [1e300, NAN, INF], "array": [1e300, NAN, 2**62],
}  # fmt: skip

# Parameters that ask for so much work: a large one takes long, and rightly so.
WORK = {
    ("pb.fori_loop", "lo"), ("pb.fori_loop", "hi"), ("pb.scan", "length"), ("pb.scan", "unroll"),
    ("pb.check_grads", "order"), ("pb.optim.LBFGS", "history_size"),
    ("pb.optim.lbfgs", "history_size"),
}  # fmt: skip

# Collectives take trees, and no axes at all.
COLLECTIVES = (
    "all_gather", "all_to_all", "axis_size", "pmax", "pmean", "pmin", "ppermute", "psum",
    "psum_scatter", "pvary", "reduce_scatter",
)  # fmt: skip
# Nonsense elsewhere that some parameter gives a meaning.
MEANT: dict[tuple[str, str], Callable[[Any], bool]] = {
    ("pb.arange", "stop"): lambda v: v is None,
    ("pb.auto_shard", "whole"): lambda v: v == {},
    ("pb.compile", "static_argnums"): lambda v: v == (0, 0),
    ("pb.compile", "donate_argnums"): lambda v: v == (0, 0),
    ("pb.compile", "static_argnames"): lambda v: v in ([], {}),
    ("pb.linalg.block_diag", "arrays"): lambda v: v == 3 or v == [],
    ("pb.isdtype", "kind"): lambda v: v == ("float32",),
    ("pb.block", "arrays"): lambda v: v == 3,
    ("pb.choose", "choices"): lambda v: v == [[1, 2], [3]],
    ("pb.mask_indices", "k"): lambda v: isinstance(v, int),
    ("pb.vectorize", "excluded"): lambda v: v == {},
    ("pb.vectorize", "otypes"): lambda v: v == ("float32",),
    **{
        (f"pb.{name}", "sections"): lambda v: v == (-2,)
        for name in ("array_split", "dsplit", "hsplit", "vsplit")
    },
    ("pb.partition", "kth"): lambda v: v in (-2, (-2,)),
    ("pb.argpartition", "kth"): lambda v: v in (-2, (-2,)),
    ("pb.meshgrid", "arrays"): lambda v: v == [],
    ("pb.pad", "pad_width"): lambda v: v == {},
    ("pb.pad", "constant_values"): lambda v: v == [[1, 2], [3]],
    **{
        (f"{owner}.index_{name}", "source"): lambda v: isinstance(v, (int, float, complex, list))
        for owner in ("pb", "Tensor")
        for name in ("add", "copy", "reduce")
    },
    **{
        (f"pb.index_{name}", "index"): lambda v: v == (0, 0, 0)
        for name in ("add", "copy", "fill", "reduce", "select")
    },
    **{
        (f"{owner}.masked_scatter", "source"): lambda v: isinstance(v, (int, float, list))
        for owner in ("pb", "Tensor")
    },
    ("Tensor.index_select", "index"): lambda v: v == (0, 0, 0),
    # an index may be repeated; one out of range is an error when the result is read
    **{
        (f"{space}.{name}", "index"): lambda v: (
            type(v) in (int, tuple) and v in (99, -99, (0, 0, 0))
        )
        for space in ("pb", "Tensor")
        for name in ("index_copy", "index_fill")
    },
    ("Tensor.roll", "shift"): lambda v: isinstance(v, int),
    ("Tensor.argpartition", "kth"): lambda v: v in (-2, (-2,)),
    ("Tensor.partition", "kth"): lambda v: v in (-2, (-2,)),
    ("pb.eye", "k"): lambda v: isinstance(v, int),
    ("pb.tril", "k"): lambda v: isinstance(v, int),
    ("pb.triu", "k"): lambda v: isinstance(v, int),
    ("Tensor.tril", "k"): lambda v: isinstance(v, int),
    ("Tensor.triu", "k"): lambda v: isinstance(v, int),
    ("pb.result_type", "values"): lambda v: isinstance(v, (int, float)),
    ("pb.split", "sections"): lambda v: v == (-2,),
    ("pb.roll", "shift"): lambda v: isinstance(v, int),
    # the verifier of modules reports such sizes
    ("pb.Type", "shape"): lambda v: v in ({}, (-2,)),
    ("pb.P", "axis"): lambda v: v == [],
    ("pb.ir.autodiff", "wrt"): lambda v: v == {},
    ("pb.ir.autodiff", "seed"): lambda v: isinstance(v, str),
    **{(f"pb.{name}", "axis_name"): lambda v: v == [] for name in COLLECTIVES},
    **{
        (f"pb.{name}", "x"): lambda v: v is None or (isinstance(v, (dict, list)) and v != ["a"])
        for name in COLLECTIVES
    },
}

# -- kinds of parameters --------------------------------------------------------------------------

KIND_BY_NAME = {
    "axis": "axis", "axis1": "axis", "axis2": "axis", "axisa": "axis", "axisb": "axis",
    "axisc": "axis", "split_axis": "axis", "concat_axis": "axis",
    "source": "axis", "destination": "axis", "axes": "sequence", "mesh": "mesh", "spec": "spec",
    "in_specs": "spec", "out_specs": "spec", "sharding": "spec", "module": "module",
    "program": "program", "shape": "size", "window": "size", "strides": "size", "dilation": "size",
    "input_dilation": "size", "repetitions": "size", "sections": "size", "sizes": "sequence",
    "padding": "sequence", "argnums": "argnums", "index": "index", "in_axes": "spec",
    "out_axes": "spec", "betas": "sequence", "starts": "sequence", "perm": "sequence",
    "arrays": "arrays", "branches": "arrays", "modes": "choice", "names": "sequence",
    "nondiff_argnums": "argnums", "static_argnums": "argnums", "donate_argnums": "argnums",
    "shift": "count", "axis_name": "text",
}  # fmt: skip
KIND_BY_TYPE = [
    ("Literal", "choice"), ("Callable", "function"), ("DTypeLike", "dtype"),
    ("ArrayLike", "array"), ("Tree", "tree"), ("bool", "flag"), ("SupportsIndex", "count"),
    ("Number", "number"), ("Tensor", "array"), ("int", "count"), ("float", "number"),
    ("str", "text"), ("Shape", "size"), ("Axis", "axis"),
]  # fmt: skip


def kind_of(parameter: inspect.Parameter) -> str:
    """Return the kind of a parameter."""
    if parameter.name in KIND_BY_NAME:
        return KIND_BY_NAME[parameter.name]
    words = re.findall(r"\w+", str(parameter.annotation))
    return next((kind for word, kind in KIND_BY_TYPE if word in words), "anything")


# -- good arguments -------------------------------------------------------------------------------

BY_KIND: dict[str, Callable[[], Any]] = {
    "array": x, "count": lambda: 2, "size": lambda: (2, 3), "axis": lambda: 0,
    "dtype": lambda: "float32", "number": lambda: 1.0, "text": lambda: "d",
    "function": lambda: total, "mesh": mesh, "spec": lambda: pb.P(), "module": module,
    "arrays": lambda: [x(), x()], "index": lambda: [0, 1], "sequence": lambda: (0, 1),
    "tree": vector, "anything": vector,
}  # fmt: skip


def _maker(value: Any) -> Callable[[], Any]:
    return value if inspect.isfunction(value) else lambda: value


def key() -> pb.Tensor:
    return pb.random.key(0)


def _window() -> dict[str, Any]:
    return {"x": image, "window": (2, 2)}


def _hvp() -> dict[str, Any]:
    return {"xs": lambda: (vector(),), "vs": lambda: (vector(),)}


def _step(carry: Any, v: Any) -> Any:
    return carry + v.sum(), v


def _bytes() -> pb.Tensor:
    return pb.tensor([1, 2], dtype="uint8")


# Functions of square matrices
SQUARE = (
    "cholesky", "det", "eig", "eigh", "eigvals", "eigvalsh", "expm", "inv", "slogdet",
)  # fmt: skip
# Arguments for which the kind does not tell a good value.
OPTIMIZERS = [
    name for name in dir(pb.optim)
    if isinstance(f := getattr(pb.optim, name), type) and pb.optim.Optimizer in f.__bases__
]  # fmt: skip
GOOD: dict[str, dict[str, Any]] = {
    "pb.fft.istft": {"x": lambda: pb.ones((3, 2)), "n_fft": 4},
    "pb.arange": {"start": 3}, "pb.avg_pool": _window(), "pb.max_pool": _window(),
    **{f"pb.{name}": {"x": square, "a": square, "b": square} for name in ("addmm", "addbmm")},
    "pb.addmv": {"x": 1.0, "a": x, "b": vector}, "pb.addr": {"x": 1.0, "a": vector, "b": vector},
    "pb.baddbmm": {"x": 1.0, "a": square, "b": square}, "pb.combinations": {"x": vector},
    "pb.cartesian_prod": {"xs": vector}, "pb.diagonal_scatter": {"src": 1.0},
    "pb.index_select": {"index": lambda: [0, 1]}, "pb.prelu": {"weight": 0.5},
    **{f"pb.index_{name}": {"index": lambda: [0, 1], "source": x, "value": 1.0, "reduce": "sum"}
       for name in ("add", "copy", "fill", "reduce")},
    **{f"pb.scatter_{name}": {"index": lambda: pb.zeros((2, 3), "int32"), "src": x, "reduce": "sum"}
       for name in ("add", "reduce")},
    "pb.select_scatter": {"src": 1.0, "index": 0}, "pb.slice_scatter": {"src": 1.0},
    **{f"pb.masked_{name}": {"mask": lambda: pb.tensor([True, False, True]), "source": x}
       for name in ("scatter", "select")},
    "pb.masked_fill": {"mask": lambda: pb.tensor([True, False, True]), "value": 1.0},
    "pb.sliding_window_view": {"window_shape": 2, "axis": 1},
    "pb.view_as_complex": {"x": square}, "pb.view_as_real": {"x": lambda: pb.tensor([1j])},
    "pb.tree.map_with_path": {"f": lambda: lambda path, *leaves: path},
    "pb.random.ball": {"d": 2}, "pb.random.binomial": {"n": 5, "p": 0.5},
    "pb.random.geometric": {"p": 0.5}, "pb.random.multinomial": {"n": 5, "p": vector},
    "pb.random.negative_binomial": {"n": 5.0, "p": 0.5}, "pb.random.triangular": {
        "left": 0.0, "mode": 1.0, "right": 2.0},
    "pb.random.multivariate_normal": {"mean": lambda: pb.zeros(2), "cov": square},
    "pb.bitwise_and": {"x1": whole, "x2": whole}, "pb.bitwise_or": {"x1": whole, "x2": whole},
    "pb.bitwise_xor": {"x1": whole, "x2": whole}, "pb.bitwise_invert": {"x": whole},
    "pb.bitwise_left_shift": {"x1": whole, "x2": whole}, "pb.bitwise_count": {"x": whole},
    "pb.bitwise_right_shift": {"x1": whole, "x2": whole}, "pb.bitcast": {"dtype": "int32"},
    "pb.broadcast_shapes": {"shapes": (2, 3)}, "pb.can_cast": {"from_": "int32"},
    "pb.check_grads": {"args": lambda: (vector(),)}, "pb.cond": {
        "pred": True, "true_fun": lambda: total, "false_fun": lambda: total, "args": vector},
    "pb.conv": {"x": image, "filters": lambda: pb.ones((2, 2, 2, 3))},
    "pb.conv2d": {"x": image, "filters": lambda: pb.ones((2, 2, 2, 3))},
    "pb.convolve": {"a": vector, "v": vector}, "pb.correlate": {"a": vector, "v": vector},
    "pb.dot": {"a": square, "b": square}, "pb.polyval": {"p": vector}, "pb.vander": {"x": vector},
    "pb.default_device": {"name": "cpu:0"}, "pb.default_dtype": {"spec": "float32"},
    "pb.dynamic_slice": {"starts": (0, 0), "sizes": (1, 2)},
    "pb.dynamic_update_slice": {"update": lambda: pb.ones((1, 1)), "starts": (0, 0)},
    "pb.einsum": {"subscripts": "ij->j", "xs": x}, "pb.einsum_path": {
        "subscripts": "ij->j", "xs": x}, "pb.associative_scan": {"fn": lambda: pb.add},
    **{f"pb.segment_{name}": {"segment_ids": lambda: [0, 1], "num_segments": 2}
       for name in ("sum", "prod", "max", "min")},
    "pb.put_along_axis": {"indices": lambda: pb.zeros((2, 3), "int32"), "values": 1.0},
    "pb.cumsum": {"axis": 0}, "pb.cumprod": {"axis": 0}, "pb.finfo": {"dtype": "float32"},
    "pb.fori_loop": {"lo": 0, "hi": 2, "body": lambda: lambda i, v: v * 2.0, "init": vector},
    "pb.from_dlpack": {"x": lambda: np.ones(3)}, "pb.gather": {"indices": lambda: [0, 1]},
    "pb.glu": {"x": lambda: pb.ones((2, 4))}, "pb.hvp": _hvp(), "pb.iinfo": {"dtype": "int32"},
    "pb.isdtype": {"dtype": "float32", "kind": "float32"},
    "pb.jvp": {"xs": lambda: (vector(),), "ts": lambda: (vector(),)},
    "pb.linspace": {"start": 0.0, "stop": 1.0, "num": 3}, "pb.map": {"xs": x},
    "pb.matmul": {"x1": square, "x2": square}, "pb.meshgrid": {"arrays": vector},
    "pb.moveaxis": {"destination": 1}, "pb.one_hot": {"x": whole, "num_classes": 7},
    "pb.outer": {"x1": vector, "x2": vector}, "pb.pad": {"pad_width": 1},
    "pb.repeat": {"repeats": 2}, "pb.reshape": {"shape": (3, 2)}, "pb.roll": {"shift": 1},
    "pb.scan": {"f": lambda: _step, "init": lambda: pb.tensor(0.0), "xs": x},
    "pb.scatter": {"index": 0, "updates": 1.0}, "pb.searchsorted": {"x1": vector, "x2": vector},
    "pb.split": {"sections": 2}, "pb.switch": {
        "index": 0, "branches": lambda: [total, total], "args": vector},
    "pb.compile": {"f": lambda: total}, "pb.custom_vjp": {"f": lambda: total},
    "pb.custom_jvp": {"f": lambda: total}, "pb.cumlogsumexp": {"axis": 0},
    "pb.cummax": {"axis": 0}, "pb.cummin": {"axis": 0}, "pb.cumulative_prod": {"axis": 0},
    "pb.cumulative_sum": {"axis": 0}, "pb.ppermute": {"perm": [(0, 1), (1, 0)]},
    "pb.all_to_all": {"x": lambda: pb.ones((2, 2)), "concat_axis": 0},
    "pb.psum_scatter": {"x": lambda: pb.ones(2)}, "pb.reduce_scatter": {"x": lambda: pb.ones(2)},
    "pb.take": {"axis": 0, "indices": lambda: [0, 1]}, "pb.while_loop": {
        "cond": lambda: lambda v: v.sum() < 50.0, "body": lambda: lambda v: v * 2.0,
        "init": vector},
    "pb.take_along_axis": {"indices": lambda: pb.zeros((2, 3), "int32")},
    "pb.squeeze": {"x": lambda: pb.ones((1, 3))}, "pb.swapaxes": {"axis2": 1},
    "pb.tensordot": {"x2": lambda: x().T, "axes": 1}, "pb.tile": {"repetitions": 2},
    "pb.top_k": {"k": 2}, "pb.where": {"condition": lambda: x() > 2},
    "pb.shard_map": {"f": lambda: lambda v: v * 2.0}, "pb.auto_shard": {
        "f": lambda: lambda v: v * 2.0},
    "pb.reshard": {"sharding": lambda: pb.Sharding(mesh(), pb.P())},
    "pb.with_sharding_constraint": {"sharding": lambda: pb.Sharding(mesh(), pb.P())},
    "pb.random.choice": {"a": 5}, "pb.random.fold_in": {"data": 3}, "pb.random.key": {"seed": 3},
    "pb.random.gamma": {"a": 1.5}, "pb.random.randint": {
        "shape": (2,), "minval": 0, "maxval": 5},
    "pb.random.categorical": {"logits": vector},
    "pb.random.truncated_normal": {"lower": -1.0, "upper": 1.0},
    "pb.ir.from_stablehlo": {"program": lambda: pb.ir.to_stablehlo(module())},
    "pb.ir.to_stablehlo": {"program": module}, "pb.ir.parse": {"text": lambda: str(module())},
    "pb.ir.from_function": {"f": lambda: lambda v: v * 2.0, "args": x},
    "pb.ir.run": {"inputs": lambda: {"v": np.ones(3, np.float32)}},
    "pb.tree.unflatten": {"structure": lambda: pb.tree.flatten([1, 2])[1], "values": [1, 2]},
    "pb.tree.map": {"f": lambda: lambda *v: v}, "pb.tree.register": {"cls": lambda: Stranger},
    "pb.trace": {"args": vector}, "pb.vjp": {"xs": vector}, "pb.linearize": {"xs": vector},
    "pb.eval_shape": {"args": vector}, "pb.checkpoint_name": {"name": "n"},
    **{f"pb.optim.{name}": {"params": lambda: [pb.tensor([1.0])]} for name in OPTIMIZERS},
    **{f"pb.optim.{name}": {"rule": lambda: pb.optim.sgd(0.1)} for name in
       ("accumulate", "apply_if_finite", "ema")}, "pb.optim.chain": {
        "steps": lambda: pb.optim.sgd(0.1)},
    "pb.optim.partition": {"rules": lambda: {"a": pb.optim.sgd(0.1)}, "labels": lambda: "a"},
    "pb.Type": {"shape": (2,), "dtype": "float32"}, "pb.DeviceMesh": {"axes": {"d": 1}},
    "Tensor.broadcast_to": {"shape": (2, 3)}, "Tensor.reshape": {"shape": (3, 2)},
    "Tensor.permute": {"axes": (1, 0)}, "Tensor.transpose": {"axes": (1, 0)},
    "Tensor.repeat": {"repeats": 2, "axis": 0, "more": None}, "Tensor.cumsum": {"axis": 0},
    "Tensor.cumprod": {"axis": 0},
    "Tensor.shard": {"mesh": mesh}, "Tensor.take": {"axis": 0, "indices": lambda: [0, 1]},
    "Tensor.dot": {"b": lambda: x().T}, "Tensor.argpartition": {"kth": 1},
    "Tensor.partition": {"kth": 1}, "Tensor.compress": {"condition": lambda: [True, False]},
    "Tensor.swapaxes": {"axis2": 1},
    "Tensor.view": {"shape": (3, 2)}, "Tensor.cummax": {"axis": 0}, "Tensor.cummin": {"axis": 0},
    "Tensor.logcumsumexp": {"axis": 0},
    "Tensor.put_along_axis": {"indices": lambda: pb.zeros((2, 3), "int32"), "values": 1.0},
    "Tensor.take_along_axis": {"indices": lambda: pb.zeros((2, 3), "int32")},
    "Tensor.matmul": {"x2": lambda: x().T}, "Tensor.mm": {"x2": lambda: x().T},
    "Tensor.mv": {"x2": vector}, "Tensor.bmm": {"x2": lambda: x().T},
    "Tensor.moveaxis": {"destination": 1}, "Tensor.movedim": {"destination": 1},
    "Tensor.roll": {"shift": 1}, "Tensor.unflatten": {"dim": 0, "sizes": (2, 1)},
    "Tensor.unsqueeze": {"dim": 0}, "Tensor.expand": {"sizes": (2, 3)}, "Tensor.tile": {"dims": 2},
    "Tensor.narrow": {"dim": 0, "start": 0, "length": 1}, "Tensor.select": {"dim": 0, "index": 0},
    "Tensor.index_select": {"dim": 0, "index": lambda: [0, 1]},
    "Tensor.index_add": {"dim": 0, "index": lambda: [0, 1], "source": x},
    "Tensor.masked_fill": {"mask": lambda: x() > 2, "value": 0.0},
    "Tensor.masked_select": {"mask": lambda: x() > 2},
    "Tensor.where": {"condition": lambda: x() > 2}, "Tensor.swapdims": {"axis2": 1},
    "Tensor.repeat_interleave": {"repeats": 2}, "Tensor.new_full": {"size": (2,), "fill_value": 1},
    "Tensor.new_zeros": {"size": 2}, "Tensor.new_ones": {"size": 2},
    "Tensor.to": {"args": "cpu:0"},
    "Tensor.addmm": {"a": lambda: x() @ x().T}, "Tensor.addr": {"a": [1.0, 2.0], "b": vector},
    "Tensor.addmv": {"a": lambda: x().T @ x(), "b": vector},
    **{f"Tensor.{name}": {"a": lambda: (x() @ x().T)[None], "b": lambda: x()[None]}
       for name in ("addbmm", "baddbmm")},
    **{f"Tensor.{name}": {"x2": whole}
       for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift",
                    "bitwise_right_shift", "ldexp")},
    "Tensor.diagonal_scatter": {"src": [1.0, 2.0]}, "Tensor.quantile": {"q": 0.5},
    "Tensor.index_reduce": {"axis": 0, "index": [0, 1], "source": x, "reduce": "sum"},
    "Tensor.masked_scatter": {"mask": lambda: x() > 2, "source": x},
    "Tensor.scatter_add": {"index": lambda: pb.zeros((2, 3), "int32"), "src": x},
    "Tensor.scatter_reduce": {
        "index": lambda: pb.zeros((2, 3), "int32"), "src": x, "reduce": "sum",
    },
    "Tensor.select_scatter": {"src": vector, "index": 0},
    "pb.polyfit": {"x": vector, "y": vector, "deg": 1},
    **{f"Tensor.logical_{name}": {"x2": whole} for name in ("and", "or", "xor")},
    "pb.apply_along_axis": {"func1d": lambda: total, "args": None, "axis": 0},
    "pb.apply_over_axes": {"func": lambda: pb.sum, "axes": (0,)},
    "pb.fromfunction": {"f": lambda: pb.add}, "pb.mask_indices": {"mask_func": lambda: pb.triu},
    "pb.vectorize": {"pyfunc": lambda: total},
    "pb.partition": {"kth": 1}, "pb.argpartition": {"kth": 1}, "pb.bincount": {"x": [1, 2]},
    "pb.choose": {"x": [0, 1], "choices": lambda: [[1, 2], [3, 4]]},
    "pb.compress": {"condition": [1, 0], "x": vector}, "pb.delete": {"obj": 0},
    "pb.insert": {"obj": 0, "values": 1.0}, "pb.digitize": {"bins": vector},
    "pb.diag_indices_from": {"x": square}, "pb.dsplit": {"x": image, "sections": 2},
    "pb.hsplit": {"sections": 3}, "pb.vsplit": {"sections": 2}, "pb.array_split": {"sections": 2},
    "pb.gcd": {"x1": whole, "x2": whole}, "pb.lcm": {"x1": whole, "x2": whole},
    "pb.gradient": {"varargs": 1.0}, "pb.interp": {"xp": vector, "fp": vector},
    "pb.ix_": {"vectors": [0, 1]}, "pb.ldexp": {"x2": 2}, "pb.packbits": {"x": whole},
    "pb.unpackbits": {"x": _bytes}, "pb.matvec": {"x2": vector}, "pb.vecmat": {"x1": vector,
    "x2": lambda: x().T}, "pb.place": {"mask": lambda: x() > 2}, "pb.putmask": {
        "mask": lambda: x() > 2}, "pb.put": {"ind": [0], "v": 1.0},
    "pb.piecewise": {"condlist": lambda: [x() > 2], "funclist": [1.0, 2.0], "args": None},
    **{f"pb.{name}": {"a1": vector, "a2": vector} for name in ("polyadd", "polysub", "polymul")},
    "pb.poly": {"seq_of_zeros": vector}, "pb.polyder": {"p": vector}, "pb.polyint": {"p": vector},
    "pb.polydiv": {"u": vector, "v": vector}, "pb.roots": {"p": vector},
    **{f"pb.{name}": {"q": 0.5}
       for name in ("quantile", "nanquantile", "percentile", "nanpercentile")},
    "pb.ravel_multi_index": {"multi_index": ([0], [1]), "dims": (2, 3)},
    "pb.unravel_index": {"indices": [1, 2]}, "pb.select": {
        "condlist": lambda: [x() > 2], "choicelist": lambda: [x()]},
    "pb.to_device": {"device": "cpu:0"}, "Tensor.to_device": {"device": "cpu:0"},
    **{f"pb.linalg.{name}": {"x": square} for name in SQUARE},
    "pb.linalg.cho_factor": {"a": square}, "pb.linalg.lu_factor": {"a": square},
    "pb.linalg.cho_solve": {"c_and_lower": lambda: pb.linalg.cho_factor(square()), "b": square},
    "pb.linalg.lu_solve": {"lu_and_piv": lambda: pb.linalg.lu_factor(square()), "b": square},
    "pb.linalg.matmul": {"x1": square, "x2": square}, "pb.linalg.matrix_power": {
        "x": square, "n": 2},
    "pb.linalg.multi_dot": {"arrays": lambda: [square(), square()]},
    "pb.linalg.outer": {"x1": vector, "x2": vector},
    "pb.linalg.solve": {"x1": square, "x2": square},
    "pb.linalg.solve_triangular": {"a": square, "b": square},
    "pb.linalg.tensordot": {"x2": lambda: x().T, "axes": 1},
    "pb.linalg.tensorinv": {"a": lambda: pb.eye(4).reshape(2, 2, 4)},
    "pb.linalg.tensorsolve": {"a": square, "b": lambda: pb.ones(2)},
}  # fmt: skip

# Not called: they end or change the process, take no argument, or are classes of the library.
LEFT_OUT = {
    "pb.clear_cache", "pb.distributed.launch", "pb.distributed.initialize",
    "pb.distributed.shutdown", "pb.backward_on_trace", "pb.apply", "pb.op", "pb.config",
    "pb.tree.register", "pb.Tensor", "pb.Trace", "Tensor.backward", "Tensor.item", "Tensor.shards",
    "pb.load_compiled", "pb.load", "pb.save", "Tensor.searchsorted", "Tensor.outer",  # of vectors
    "Tensor.choose",  # of indices
    "Tensor.split", "Tensor.cuda",  # always an error, or one without a GPU
    "pb.logcumsumexp", *[f"pb.{name}" for name in pb.functions.numpy_names.__all__],  # other names
    # their arguments are those of the methods without the underscore
    *[f"Tensor.{name}" for name in vars(in_place_methods.InPlaceMethods)],
}  # fmt: skip


def _written(index: Any) -> Any:
    t = x()
    t[index] = 1.0
    return t


def _assigned(value: Any) -> Any:
    t = x()
    t[0] = value
    return t


# Operators and constructors, whose signatures say nothing.
MORE: dict[str, tuple[Callable, dict[str, str]]] = {
    "x[index]": (lambda index: x()[index], {"index": "index"}),
    "x[index] = 1": (_written, {"index": "index"}),
    "x[0] = value": (_assigned, {"value": "array"}),
    "x.at[index].set(1)": (lambda index: x().at[index].set(1.0), {"index": "index"}),
    "x.at[0].add(value)": (lambda value: x().at[0].add(value), {"value": "array"}),
    "x + value": (lambda value: x() + value, {"value": "array"}),
    "value - x": (lambda value: value - x(), {"value": "array"}),
    "x * value": (lambda value: x() * value, {"value": "array"}),
    "x / value": (lambda value: x() / value, {"value": "array"}),
    "x ** value": (lambda value: x() ** value, {"value": "array"}),
    "x @ value": (lambda value: x() @ value, {"value": "array"}),
    "x < value": (lambda value: x() < value, {"value": "array"}),
    "pb.Type": (lambda shape, dtype: pb.Type(shape, dtype), {"shape": "size", "dtype": "dtype"}),
    "pb.DeviceMesh": (lambda shape: pb.DeviceMesh(shape, ("d",)), {"shape": "size"}),
    "pb.Sharding": (lambda mesh, spec: pb.Sharding(mesh, spec), {"mesh": "mesh", "spec": "spec"}),
    "pb.P": (lambda axis: pb.P(axis), {"axis": "text"}),
    "pb.config(eager)": (lambda eager: pb.config(eager=eager), {"eager": "flag"}),
    "pb.config(engine)": (lambda engine: pb.config(engine=engine), {"engine": "choice"}),
    "pb.config(grad_enabled)": (lambda on: pb.config(grad_enabled=on), {"on": "flag"}),
    "x.requires_grad = on": (lambda on: setattr(x(), "requires_grad", on), {"on": "flag"}),
}  # fmt: skip


# Transforms to call a function in; None: it is called as it is.
CONTEXTS: dict[str, Callable[[Callable], Any] | None] = {
    "plain": None,
    "compile": lambda f: pb.compile(lambda v: (f(), v * 2)[1])(vector()),
    "grad": lambda f: pb.grad(lambda v: (f(), total(v))[1])(vector()),
    "vmap": lambda f: pb.vmap(lambda v: (f(), v * 2)[1])(x()),
    "scan": lambda f: pb.scan(lambda c, v: (f(), (c, v))[1], vector(), x()),
    "cond": lambda f: pb.cond(True, lambda v: (f(), v)[1], lambda v: v, vector()),
}


@dataclass
class BadCall:
    """A call of `function` with good arguments but for `parameter`."""

    name: str
    parameter: str
    value: Any
    function: Callable
    good: dict[str, Callable[[], Any]]
    several: str | None  # the parameter that takes all positional arguments
    may_pass: bool = False  # whether the value may mean something
    context: str = "plain"  # the transform that the call is made in

    def __str__(self) -> str:
        where = "" if self.context == "plain" else f" in {self.context}"
        return f"{self.name}({self.parameter}={self.value!r}){where}"

    def __call__(self) -> Any:
        """Make the call, in its context; the results of a transform are dropped."""
        transform = CONTEXTS[self.context]
        return self.plain() if transform is None else transform(self.plain)

    def plain(self) -> Any:
        given = {name: make() for name, make in self.good.items()}
        if self.parameter:
            given[self.parameter] = self.value
        return after(self.name, self.call(given))

    def call(self, given: dict[str, Any]) -> Any:
        if "axis_name" in inspect.signature(self.function).parameters and self.name != "pb.vmap":
            return pb.vmap(lambda _: self.function(**given), axis_name="d")(x())
        if self.several is None:
            return self.function(**given)
        names = list(inspect.signature(self.function).parameters)
        before = [given.pop(n) for n in names[: names.index(self.several)] if n in given]
        last = given.pop(self.several, None)
        return self.function(*before, *([] if last is None else [last]), **given)


def after(name: str, result: Any) -> Any:
    """Use what was returned, because a transform or an update rule reads its options late."""
    if isinstance(result, pb.optim.LBFGSRule):
        return result.minimize(lambda v: (v * v).sum(), vector(), 2)
    if isinstance(result, pb.optim.OptimizerRule):
        params = [vector()]
        return result.update(params, result.init(params), params)
    if isinstance(result, pb.optim.Optimizer):
        return result.step() if all(p.grad is not None for p in result.params) else None
    if name.startswith(("pb.custom_", "pb.debug")) or name == "pb.checkpoint":
        return result
    if callable(result) and not isinstance(result, (pb.Tensor, type)):
        return result(vector())
    return result


def public() -> Iterator[tuple[str, Callable]]:
    """The public functions, with their names."""
    spaces = {
        "pb": pb, "pb.random": pb.random, "pb.optim": pb.optim, "pb.ir": pb.ir, "pb.tree": pb.tree,
        "pb.debug": pb.debug, "pb.distributed": pb.distributed, "Tensor": pb.Tensor,
        "pb.fft": pb.fft, "pb.linalg": pb.linalg,
    }  # fmt: skip
    for prefix, space in spaces.items():
        for name in dir(space):
            f, full = getattr(space, name), f"{prefix}.{name}"
            wanted = inspect.isfunction(f) or (prefix == "pb.optim" and name in OPTIMIZERS)
            if wanted and not name.startswith("_") and full not in LEFT_OUT:
                yield full, f


def method(name: str) -> Callable:
    """A method of a tensor, as a function of the other arguments."""
    own = _counts if name == "bincount" else whole if name.startswith("bitwise_") else x
    return lambda *args, **kwargs: getattr(own(), name)(*args, **kwargs)


def calls() -> Iterator[BadCall]:
    """Every bad call; for each function, first a good one (without a `parameter`)."""
    for name, (f, kinds) in MORE.items():
        good = {"shape": lambda: (2,), "dtype": lambda: "float32", "mesh": mesh, "spec": pb.P}
        good = {p: make for p, make in good.items() if p in kinds}
        for parameter, kind in kinds.items():
            for value in BAD[kind]:
                if not _is_meant(name, parameter, value):
                    yield BadCall(name, parameter, value, f, good, None)
    for name, f in public():
        parameters = list(inspect.signature(f).parameters.values())
        if name.startswith("Tensor."):
            parameters = parameters[1:]
            f = _with_signature(method(name[7:]), parameters)
        several = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
        parameters = [p for p in parameters if p.kind is not p.VAR_KEYWORD]
        special = GOOD.get(name, {})
        good = {
            p.name: _maker(special[p.name]) if p.name in special else BY_KIND[kind_of(p)]
            for p in parameters
            if p.name in special or (p.default is p.empty and p.name != "key")
        }
        good |= {p.name: key for p in parameters if p.name == "key"}
        yield BadCall(name, "", None, f, good, several)
        for p in parameters:
            kind = kind_of(p)
            for value in BAD[kind]:
                optional = value is None and (p.default is None or p.name == several)
                if not optional and not _is_meant(name, p.name, value):
                    yield BadCall(name, p.name, value, f, good, several)
            for value in [] if (name, p.name) in WORK else LARGE.get(kind, []):
                yield BadCall(name, p.name, value, f, good, several, may_pass=True)


def _is_meant(name: str, parameter: str, value: Any) -> bool:
    meant = MEANT.get((name, parameter))
    return meant is not None and not isinstance(value, np.ndarray) and meant(value)


def _with_signature(f: Any, parameters: list[inspect.Parameter]) -> Callable:
    f.__signature__ = inspect.Signature(parameters)
    return f


def chosen(count: int | None, seed: int) -> list[BadCall]:
    """All calls as they are, or a random sample of them in random transforms."""
    every = list(calls())
    if count is None:
        return every
    rng = random.Random(seed)
    good = [c for c in every if not c.parameter]
    found = rng.choices([c for c in every if c.parameter], k=count)
    return good + [replace(c, context=rng.choice(list(CONTEXTS))) for c in found]


def outcome(call: BadCall) -> str:
    """Make a call and return what came of it: a word, and details after a tab.

    An error is `placed` if it is pullback's, points at this file and names the argument: the
    parameter, the value or its type.
    """
    try:
        result = call()
        tensors = [t for t in pb.tree.leaves(result) if isinstance(t, pb.Tensor)]
        pb.wait([t for t in tensors if t.size <= MOST_EVALUATED])
    except pb.PullbackError as error:
        text = " ".join(str(error).split())
        at = getattr(error.where, "file", None) == __file__
        told = (call.parameter, repr(call.value), type(call.value).__name__, *_words(call.value))
        placed = at and (call.may_pass or any(word in text for word in told if word))
        word = "placed" if placed else "unplaced"
    except Exception as error:
        word, text = "foreign", f"{type(error).__name__}: {' '.join(str(error).split())}"
    else:
        return "passed\t" if call.may_pass else "accepted\t" if call.parameter else "good\t"
    return f"{word}\t{text[:200]}" if call.parameter else f"a good call failed\t{text[:200]}"


def _words(value: Any) -> list[str]:
    """How a message may show a part of a value."""
    if isinstance(value, (list, tuple, set)):
        return [repr(list(value)), *(repr(v) for v in value)]
    return []
