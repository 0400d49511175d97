"""What to write for attributes of NumPy's arrays and PyTorch's tensors that Tensor does not have.

An answer is an expression or, if it ends with a full stop, a sentence.
"""

from __future__ import annotations

_WRITTEN = {
    # shapes
    "adjoint": "x.mT.conj()", "nelement": "x.size", "ndimension": "x.ndim",
    "element_size": "x.dtype.bits // 8", "itemsize": "x.dtype.bits // 8",
    "flat": "x.flatten()", "resize": "x.reshape(shape)",
    "unfold": "Stack slices of x with pb.stack.",
    # dtypes, devices and copies
    "type": "x.astype(dtype)", "is_cuda": "x.device", "get_device": "x.device",
    "pin_memory": "Tensors need no pinned memory.", "is_floating_point": "x.dtype.is_float",
    "is_complex": "x.dtype.is_complex", "block_until_ready": "pb.evaluate(x)",
    "addressable_shards": "x.shards()", "to_numpy": "x.numpy()", "asnumpy": "x.numpy()",
    "tofile": "x.numpy().tofile(path)", "dump": "x.numpy().dump(path)",
    "new_empty": "pb.zeros(shape, dtype=x.dtype)", "byteswap": "x.numpy().byteswap()",
    # elements
    "sgn": "x.sign()", "rsub": "y - x",
    # reductions and products
    "aminmax": "x.min(), x.max()", "ger": "pb.outer(x, y)", "inverse": "pb.linalg.inv(x)",
    "ptp": "x.max() - x.min()", "dist": "(x - y).norm()", "var_mean": "x.var(), x.mean()",
    "logdet": "pb.linalg.slogdet(x)[1]", "equal": "bool(pb.all(x == y))",
    # indices
    "gather": "pb.take_along_axis(x, indices, axis)", "scatter": "x.at[indices].set(values)",
    "index_put": "x.at[indices].set(values)", "put": "x.at[indices].set(values)",
    # derivatives
    "data": "x.detach() to read, x.assign(value) to write", "grad_fn": "pb.trace(f, x)",
    "retain_grad": "pb.vjp and pb.grad give derivatives of intermediate values.",
    "register_hook": "pb.custom_vjp(f)", "set_": "x.assign(value)",
    "normal_": "x.assign(pb.random.normal(key, x.shape))",
    "uniform_": "x.assign(pb.random.uniform(key, x.shape))",
    "unsqueeze_": "x = x.expand_dims(axis)", "scatter_": "x = x.at[indices].set(values)",
    "scatter_add_": "x = x.at[indices].add(values)",
}  # fmt: skip
_MEMORY: list[str] = [
    "stride", "strides", "is_contiguous", "flags", "base", "storage", "data_ptr", "as_strided",
]  # fmt: skip
_IN_PLACE = [
    "detach", "squeeze",
]  # fmt: skip

TENSOR_NAMES = {
    **_WRITTEN,
    **dict.fromkeys(_MEMORY, "Tensors have no memory order and no views."),
    **{f"{name}_": f"x = x.{name}()" for name in _IN_PLACE},
}
# Names that pullback has elsewhere: in `pb.linalg`, `pb.special` and other modules
FOUND_ELSEWHERE: list[str] = [
    "cholesky", "det", "slogdet", "svd", "qr", "lu", "eig", "eigh", "solve", "lstsq", "inv", "pinv",
    "expm", "matrix_power", "matrix_rank", "multi_dot", "polygamma", "i0", "i1", "gammaln", "xlogy",
    "logit", "array_equal", "cross", "cov", "corrcoef", "median", "percentile", "histogram",
    "unique", "interp", "fft", "ifft", "rfft", "irfft", "normal", "uniform", "vmap",
]  # fmt: skip
