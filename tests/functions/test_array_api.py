"""The array API standard, version 2025.12: names, parameters, dtypes, and what `copy` means.

Values are compared with NumPy in test_functions.py, special cases in test_special_cases.py.
"""

from __future__ import annotations

import array
import inspect
import operator
from inspect import Parameter

import numpy as np
import pytest
from helpers import told

import pullback as pb
from pullback.errors import ArgumentError, DTypeError

# The parameters of the standard's functions: "_" is one without a name, "." marks one that is only
# given by its name, "=" one that has a default, "*" any number of arguments
SIGNATURES = {
    "_": "abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 finfo "
    "floor iinfo imag isfinite isinf isnan log log10 log1p log2 logical_not matrix_transpose "
    "negative nonzero positive real reciprocal round sign signbit sin sinh sqrt square tan tanh "
    "trunc unique_all unique_counts unique_inverse unique_values",
    "_ _": "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor "
    "can_cast copysign divide equal floor_divide greater greater_equal hypot less less_equal "
    "logaddexp logical_and logical_or logical_xor matmul maximum minimum multiply nextafter "
    "not_equal pow remainder subtract tile",
    "_ _ _": "moveaxis where",
    "_ .axis= .keepdims=": "all any argmax argmin count_nonzero max mean min",
    "_ .axis= .dtype= .keepdims=": "prod sum",
    "_ .axis= .correction= .keepdims=": "std var",
    "_ .axis= .dtype= .include_initial=": "cumulative_prod cumulative_sum",
    "_ .axis= .descending= .stable=": "argsort sort",
    "_ .axis=": "concat flip stack unstack",
    "_ axis": "expand_dims squeeze",
    "_ _ .axis=": "repeat take take_along_axis vecdot",
    "_ _ .axes=": "tensordot",
    "_ .k=": "tril triu",
    "*": "broadcast_arrays broadcast_shapes result_type",
    "* .indexing=": "meshgrid",
    "shape .dtype= .device=": "empty ones zeros",
    "_ .dtype= .device=": "empty_like ones_like zeros_like",
    "shape fill_value .dtype= .device=": "full",
    "_ fill_value .dtype= .device=": "full_like",
    "_ stop= step= .dtype= .device=": "arange",
    "_ _ num .dtype= .device= .endpoint=": "linspace",
    "_ _= .k= .dtype= .device=": "eye",
    "_ .dtype= .device= .copy=": "asarray",
    "_ .device= .copy=": "from_dlpack",
    "_ _ .copy= .device=": "astype",
    "_ shape": "broadcast_to",
    "_ shape .copy=": "reshape",
    "_ axes": "permute_dims",
    "_ shift .axis=": "roll",
    "_ min= max=": "clip",
    "_ .axis= .n= .prepend= .append=": "diff",
    "_ _ .side= .sorter=": "searchsorted",
    "dtype kind": "isdtype",
    "": "__array_namespace_info__",
}
METHODS = {
    "__array_namespace__": ".api_version=", "__dlpack_device__": "", "__getitem__": "key",
    "__dlpack__": ".stream= .max_version= .dl_device= .copy=", "__setitem__": "key value",
    "to_device": "_ .stream=",
}  # fmt: skip
EITHER_WAY = Parameter.POSITIONAL_OR_KEYWORD


def misfits(wanted: str, function) -> list[str]:
    """Return the parameters of the standard that a function cannot be given."""
    have = dict(inspect.signature(function).parameters)
    in_order, wrong = list(have.values()), []
    for i, word in enumerate(wanted.split()):
        name = word.strip("._=*")
        found = have.get(name) if word[0] == "." else in_order[i] if i < len(in_order) else None
        fits = found is not None and (
            found.kind in (EITHER_WAY, Parameter.KEYWORD_ONLY) if word[0] == "."
            else found.kind is Parameter.VAR_POSITIONAL if word == "*"
            else found.kind in (EITHER_WAY, Parameter.POSITIONAL_ONLY) if word[0] == "_"
            else found.kind is EITHER_WAY and found.name == name
        )  # fmt: skip
        if not fits or (word[-1] == "=") > (found.default is not Parameter.empty):
            wrong.append(word)
    optional = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    required = [p for p in in_order if p.default is p.empty and p.kind not in optional]
    needed = [word for word in wanted.split() if word[-1] not in "=*"]
    return wrong if len(required) <= len(needed) else [*wrong, "needs more"]


def test_every_function_takes_the_standards_parameters():
    names = [(name, row) for row, names in SIGNATURES.items() for name in names.split()]
    wrong = {n: bad for n, row in names if (bad := misfits(row, getattr(pb, n)))}
    assert not wrong and len(names) > 120
    x = pb.ones((2, 2))
    for name, row in METHODS.items():
        row = " ".join("_" if word in ("key", "value") else word for word in row.split())
        assert not misfits(row, getattr(x, name)), name


def test_the_namespace_describes_itself():
    x = pb.ones(3)
    assert pb.__array_api_version__ == "2025.12"
    assert x.__array_namespace__() is x.__array_namespace__(api_version="2022.12") is pb
    with told(ArgumentError, ValueError, "__array_namespace__", "2025.12", "2019.01"):
        x.__array_namespace__(api_version="2019.01")
    info = pb.__array_namespace_info__()
    assert info.capabilities()["boolean indexing"] and info.capabilities()["max dimensions"] == 64
    assert info.default_device() in info.devices() and x.device == info.default_device()
    assert pb.zeros(2, device=info.devices()[-1]).device == info.devices()[-1]
    with pb.default_dtype("float64"):
        chosen = info.default_dtypes(device="cpu:0")
    assert (chosen["real floating"], chosen["complex floating"]) == (pb.float64, pb.complex128)
    assert info.default_dtypes()["integral"] is info.default_dtypes()["indexing"] is pb.int64
    assert list(info.dtypes(kind=("bool", "complex floating"))) == [
        "bool",
        "complex64",
        "complex128",
    ]
    assert len(info.dtypes()) == 13 and "bfloat16" not in info.dtypes()
    assert info.dtypes(kind="integral").keys() < info.dtypes(kind="numeric").keys()
    with told(ArgumentError, ValueError, "dtypes", "kind", "text"):
        info.dtypes(kind="text")


def test_several_results_are_tuples():
    x = pb.tensor([[1, 0], [0, 2]])
    for made in (
        pb.broadcast_arrays(x, 1), pb.meshgrid(x[0], x[1]), pb.nonzero(x), pb.unstack(x),
        pb.unique_all(x), pb.unique_counts(x), pb.unique_inverse(x),
        pb.__array_namespace_info__().devices(),
    ):  # fmt: skip
        assert isinstance(made, tuple)


def test_limits_of_dtypes():
    for dtype in (pb.float32, pb.float64, pb.complex64, pb.complex128):
        info, expected = pb.finfo(dtype), np.finfo(dtype.numpy)
        assert info.dtype is dtype.real
        for name in ("bits", "eps", "max", "min", "smallest_normal"):
            assert getattr(info, name) == getattr(expected, name)
            assert type(getattr(info, name)) is (int if name == "bits" else float)
    assert pb.iinfo(pb.ones(2, dtype="uint8")).max == 255 and pb.iinfo("int16").dtype is pb.int16


def test_dtypes_are_those_of_numpy():
    x = pb.ones(3)
    assert x.dtype == np.float32 == x.dtype and x.dtype != np.float64 and x.dtype == "float32"
    assert np.dtype(x.dtype) is np.dtype("float32") and np.zeros(3, x.dtype).dtype == x.dtype
    assert np.dtype(pb.bfloat16) == pb.bfloat16.numpy and pb.int64 == "int64"
    assert x.dtype != "no dtype" and x.dtype is not None and x.dtype != 3
    assert (x.dtype.char, x.dtype.itemsize, x.dtype.type) == ("f", 4, np.float32)
    assert {pb.float32: 1}[x.dtype] == 1 and len({pb.float32, pb.float64}) == 2


def test_copies_are_made_as_asked():
    x = pb.tensor([1.0, 2.0])
    for copied in (
        pb.asarray(x, copy=True), pb.astype(x, x.dtype), pb.from_dlpack(x), pb.reshape(x, (2,)),
        pb.reshape(x, (2,), copy=True), pb.asarray(x, device=x.device, copy=True),
    ):  # fmt: skip
        copied += 1
    assert x.tolist() == [1.0, 2.0]
    for same in (
        pb.asarray(x), pb.asarray(x, copy=False), pb.astype(x, x.dtype, copy=False),
        pb.from_dlpack(x, copy=False), pb.asarray(x, device=x.device, copy=False),
        pb.from_dlpack(x, device=x.device, copy=False),
    ):  # fmt: skip
        assert same is x
    assert pb.reshape(x, (2, 1), copy=False).shape == x.reshape(2, 1, copy=True).shape == (2, 1)


def test_memory_of_the_host_is_shared_on_request():
    source = np.arange(3.0)
    copied, shared = pb.asarray(source), pb.asarray(source, copy=False)
    source[0] = 7.0
    assert copied.tolist() == [0.0, 1.0, 2.0] and shared.tolist() == [7.0, 1.0, 2.0]
    assert source.flags.writeable
    wrong = {
        "a list": [1.0], "not f32": source, "contiguous": source[::2], "list": [pb.ones(2)],
    }  # fmt: skip
    for word, data in wrong.items():
        dtype = pb.float32 if word == "not f32" else None
        with told(ArgumentError, ValueError, "asarray", "copy=False", word):
            pb.asarray(data, dtype, copy=False)
    with told(ArgumentError, ValueError, "copy=False", "f32"):
        pb.asarray(pb.ones(2), pb.float64, copy=False)
    for call in (pb.asarray, pb.from_dlpack, lambda x, copy: pb.reshape(x, (3,), copy=copy)):
        with told(ArgumentError, TypeError, "copy must be True or False", "sometimes"):
            call(source, copy="sometimes")


def test_devices(on_cpu):
    x = pb.ones(3)
    assert x.to_device("cpu:0").device == x.to_device(x.device, stream=None).device == "cpu:0"
    assert pb.astype(x, "int32", device="cpu:0").device == "cpu:0"
    with told(ArgumentError, ValueError, "to_device", "stream"):
        x.to_device("cpu:0", stream=1)


SCALARS = {"b": True, "i": 3, "f": 2.5, "c": 1 + 2j}


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float32", "complex64"])
def test_operators_with_python_scalars_keep_the_dtype(dtype):
    x = pb.tensor([1, 2], dtype=dtype)
    order = "biufc".index
    for kind, scalar in SCALARS.items():
        if dtype == "bool" or order(kind) > order(x.dtype.kind):
            continue
        for combine in (operator.add, operator.mul, operator.sub):
            assert combine(x, scalar).dtype is combine(scalar, x).dtype is x.dtype
    if dtype != "bool":
        x += 1
        x *= 2
        assert x.dtype == dtype
    if x.dtype.is_integer:
        x <<= 1
        x >>= 2
        assert x.dtype == dtype and x.tolist() == [2, 3]


def test_writing_in_place_converts_within_a_kind():
    x = pb.tensor([1, 2], dtype="int32")
    x += pb.tensor([1, 2])
    y = pb.ones(2)
    y *= pb.ones(2, dtype="float64")
    assert (x.dtype, x.tolist(), y.dtype) == (pb.int32, [2, 4], pb.float32)
    with told(ArgumentError, ValueError, "+=", "f32[2]", "i32[2]"):
        x += y
    with told(ArgumentError, ValueError, "+=", "i32[2]", "u8[2]"):
        z = pb.ones(2, dtype="uint8")
        z += x


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float32", "bfloat16", "complex128"])
def test_one_element_becomes_a_python_number(dtype):
    x = pb.tensor(1, dtype=dtype)
    assert complex(x) == 1 and bool(x) is True
    if not x.dtype.is_complex:
        assert (int(x), float(x)) == (1, 1.0) and type(int(x)) is int and type(float(x)) is float
    for convert in (int, float) if x.dtype.is_complex else ():
        with told(DTypeError, TypeError, convert.__name__, "complex128", "x.real"):
            convert(x)
    if x.dtype.is_integer:
        assert [5, 6][x] == 6 and operator.index(x) == 1
    else:
        with told(ArgumentError, TypeError, "index", x.dtype.name):
            operator.index(x)
    assert (x.real == x).all() and (x.imag == 0).all()


def test_buffers_keep_their_dtype():
    for data, dtype in (
        (memoryview(bytearray(2)), "uint8"),
        (bytearray(2), "uint8"),
        (array.array("h", [0, 0]), "int16"),
    ):
        assert pb.asarray(data).dtype == dtype and pb.asarray(data).tolist() == [0, 0]


def test_diagonals_beyond_the_matrix():
    assert not pb.eye(2, 3, k=2**70).any() and not pb.eye(2, k=-(2**70)).any()


def test_result_types_with_scalars():
    i8, f32, u64 = pb.int8, pb.float32, pb.uint64
    assert pb.result_type(i8, 3) is i8 and pb.result_type(pb.ones(1), i8) is f32
    assert pb.result_type(f32, 1j) is pb.complex64 and pb.result_type(u64, True) is u64
    assert pb.result_type(i8, pb.uint8) is pb.int16 and pb.result_type(1, i8, 2.0) is f32
    assert pb.can_cast(pb.ones(1), pb.float64) and not pb.can_cast(pb.float64, f32)
    assert pb.isdtype(f32, ("integral", "real floating")) and not pb.isdtype(i8, "unsigned integer")
