"""What to write for attributes of NumPy's arrays and PyTorch's tensors that Tensor does not have.

An answer is an expression or, if it ends with a full stop, a sentence.
"""

from __future__ import annotations

_WRITTEN = {
    # shapes
    "unsqueeze": "x.expand_dims(axis)", "view": "x.reshape(shape)", "view_as": "x.reshape(y.shape)",
    "reshape_as": "x.reshape(y.shape)", "expand": "x.broadcast_to(shape)",
    "expand_as": "x.broadcast_to(y.shape)", "unflatten": "x.reshape(shape)",
    "movedim": "pb.moveaxis(x, source, destination)", "swapdims": "x.swapaxes(a, b)", "t": "x.T",
    "H": "x.mT.conj()", "mH": "x.mT.conj()", "adjoint": "x.mT.conj()", "numel": "x.size",
    "nelement": "x.size", "dim": "x.ndim", "ndimension": "x.ndim",
    "element_size": "x.dtype.bits // 8", "itemsize": "x.dtype.bits // 8",
    "nbytes": "x.size * x.dtype.bits // 8", "chunk": "pb.split(x, n, axis)",
    "unbind": "pb.unstack(x, axis=axis)", "narrow": "x[start : start + length]", "select": "x[i]",
    "flat": "x.flatten()", "resize": "x.reshape(shape)",
    "unfold": "Stack slices of x with pb.stack.",
    # dtypes, devices and copies
    "float": "x.astype(pb.float32)", "double": "x.astype(pb.float64)",
    "half": "x.astype(pb.float16)", "bfloat16": "x.astype(pb.bfloat16)",
    "int": "x.astype(pb.int32)", "long": "x.astype(pb.int64)", "short": "x.astype(pb.int16)",
    "char": "x.astype(pb.int8)", "byte": "x.astype(pb.uint8)", "bool": "x.astype(pb.bool)",
    "cfloat": "x.astype(pb.complex64)", "cdouble": "x.astype(pb.complex128)",
    "type": "x.astype(dtype)", "type_as": "x.astype(y.dtype)", "cpu": "x.to_device('cpu:0')",
    "cuda": "x.to_device('cuda:0')", "is_cuda": "x.device", "get_device": "x.device",
    "pin_memory": "Tensors need no pinned memory.", "clone": "x.copy()",
    "is_floating_point": "x.dtype.is_float", "is_complex": "x.dtype.is_complex",
    "block_until_ready": "pb.evaluate(x)", "addressable_shards": "x.shards()",
    "to_numpy": "x.numpy()", "asnumpy": "x.numpy()", "tobytes": "x.numpy().tobytes()",
    "tofile": "x.numpy().tofile(path)", "dump": "x.numpy().dump(path)",
    "new_zeros": "pb.zeros(shape, dtype=x.dtype)", "new_ones": "pb.ones(shape, dtype=x.dtype)",
    "new_full": "pb.full(shape, value, dtype=x.dtype)",
    "new_empty": "pb.zeros(shape, dtype=x.dtype)", "new_tensor": "pb.tensor(data, dtype=x.dtype)",
    "byteswap": "x.numpy().byteswap()",
    # elements
    "pow": "x ** y", "add": "x + y", "sub": "x - y", "subtract": "x - y", "mul": "x * y",
    "multiply": "x * y", "div": "x / y", "divide": "x / y", "true_divide": "x / y", "neg": "-x",
    "negative": "-x", "remainder": "x % y", "eq": "x == y", "ne": "x != y", "gt": "x > y",
    "ge": "x >= y", "lt": "x < y", "le": "x <= y", "absolute": "x.abs()", "bitwise_not": "~x",
    "logical_not": "~x", "bitwise_and": "x & y", "bitwise_or": "x | y",
    "clamp": "x.clip(low, high)", "clamp_min": "x.clip(low)", "clamp_max": "pb.minimum(x, high)",
    "conjugate": "x.conj()", "sgn": "x.sign()", "fix": "x.trunc()", "frac": "x - x.trunc()",
    "lerp": "x + w * (y - x)", "addcmul": "x + value * a * b", "addcdiv": "x + value * a / b",
    "rsub": "y - x",
    # reductions and products
    "amax": "x.max(axis)", "amin": "x.min(axis)", "aminmax": "x.min(), x.max()",
    "logcumsumexp": "pb.cumlogsumexp(x, axis=axis)", "topk": "pb.top_k(x, k)", "mm": "x @ y",
    "bmm": "x @ y", "mv": "x @ y", "matmul": "x @ y", "addmm": "x + a @ b", "ger": "pb.outer(x, y)",
    "ptp": "x.max() - x.min()", "dist": "(x - y).norm()", "var_mean": "x.var(), x.mean()",
    "equal": "bool(pb.all(x == y))",
    # indices
    "masked_fill": "pb.where(mask, value, x)", "masked_select": "x[mask]", "compress": "x[mask]",
    "index_select": "x.take(indices, axis)", "gather": "pb.take_along_axis(x, indices, axis)",
    "scatter": "x.at[indices].set(values)", "scatter_add": "x.at[indices].add(values)",
    "index_add": "x.at[indices].add(values)", "index_put": "x.at[indices].set(values)",
    "index_fill": "x.at[indices].set(value)", "index_copy": "x.at[indices].set(values)",
    "put": "x.at[indices].set(values)", "fill": "pb.full_like(x, value)",
    "masked_scatter": "x.at[mask].set(values)", "choose": "pb.take_along_axis(choices, x, axis)",
    # derivatives
    "data": "x.detach() to read, x.assign(value) to write", "grad_fn": "pb.trace(f, x)",
    "retain_grad": "pb.vjp and pb.grad give derivatives of intermediate values.",
    "register_hook": "pb.custom_vjp(f)", "requires_grad_": "x.requires_grad = True",
    "zero_": "x[...] = 0", "fill_": "x[...] = value", "copy_": "x.assign(value)", "add_": "x += y",
    "sub_": "x -= y", "mul_": "x *= y", "div_": "x /= y", "pow_": "x **= y", "neg_": "x = -x",
    "set_": "x.assign(value)", "clamp_": "x[...] = x.clip(low, high)",
    "normal_": "x.assign(pb.random.normal(key, x.shape))",
    "uniform_": "x.assign(pb.random.uniform(key, x.shape))",
    "unsqueeze_": "x = x.expand_dims(axis)", "masked_fill_": "x[mask] = value",
    "index_add_": "x = x.at[indices].add(values)", "scatter_": "x = x.at[indices].set(values)",
    "scatter_add_": "x = x.at[indices].add(values)",
}  # fmt: skip
_MEMORY = [
    "stride", "strides", "contiguous", "is_contiguous", "flags", "base", "storage", "data_ptr",
    "as_strided",
]  # fmt: skip
_IN_PLACE = [
    "detach", "abs", "ceil", "cos", "exp", "floor", "log", "relu", "round", "rsqrt", "sigmoid",
    "sign", "sin", "sqrt", "squeeze", "tanh", "trunc", "reciprocal",
]  # fmt: skip

TENSOR_NAMES = {
    **_WRITTEN,
    **dict.fromkeys(_MEMORY, "Tensors have no memory order and no views."),
    **{f"{name}_": f"x = x.{name}()" for name in _IN_PLACE},
}
# Names that pullback has elsewhere: in `pb.linalg`, `pb.special` and other modules
FOUND_ELSEWHERE = [
    "digamma", "polygamma", "erfinv", "lgamma", "allclose", "isclose", "outer", "fft", "normal",
    "uniform", "vmap",
]  # fmt: skip
