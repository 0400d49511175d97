"""What to write for functions of NumPy, JAX and PyTorch that pullback does not have by that name.

An answer is an expression, the name of a function of the same module, or a sentence, which ends
with a full stop. Names that live elsewhere in pullback, such as `pb.svd`, and those in
`interop.numpy.NAMES` need no entry: they are looked for.
"""

from __future__ import annotations

# Names of NumPy, PyTorch and `jax.lax` for functions of the same meaning
_RENAMED = {
    "cat": "concat", "as_tensor": "asarray", "from_numpy": "asarray", "trapz": "trapezoid",
    "permute": "permute_dims", "rem": "remainder", "mul": "multiply", "sub": "subtract",
    "div": "divide", "neg": "negative", "eq": "equal", "ne": "not_equal", "gt": "greater",
    "ge": "greater_equal", "lt": "less", "le": "less_equal", "sgn": "sign", "movedim": "moveaxis",
    "swapdims": "swapaxes", "take_along_dim": "take_along_axis", "topk": "top_k",
    "unbind": "unstack", "tensor_split": "array_split", "shift_left": "bitwise_left_shift",
    "shift_right_arithmetic": "bitwise_right_shift", "is_finite": "isfinite",
    "population_count": "bitwise_count", "repeat_interleave": "repeat", "msort": "sort",
    "swish": "silu", "logsigmoid": "log_sigmoid", "erf_inv": "erfinv", "igamma": "special.gammainc",
    "igammac": "special.gammaincc", "mvlgamma": "special.multigammaln", "bessel_i0e": "special.i0e",
    "bessel_i1e": "special.i1e", "inverse": "linalg.inv", "pinverse": "linalg.pinv",
    "matrix_exp": "linalg.expm", "chain_matmul": "linalg.multi_dot", "bucketize": "digitize",
    "conv_general_dilated": "conv2d", "reduce_sum": "sum", "reduce_max": "max", "reduce_min": "min",
    "reduce_prod": "prod", "reduce_and": "all", "reduce_or": "any", "iota": "arange",
    "broadcast_tensors": "broadcast_arrays", "remat": "checkpoint", "jit": "compile",
    "function": "compile", "custom_gradient": "custom_vjp", "block_until_ready": "wait",
    "clear_caches": "clear_cache", "make_mesh": "DeviceMesh", "Mesh": "DeviceMesh",
    "PartitionSpec": "P", "NamedSharding": "Sharding", "ShapeDtypeStruct": "Type",
    "Array": "Tensor", "ndarray": "Tensor", "Variable": "Tensor", "float": "float32",
    "double": "float64", "half": "float16", "cfloat": "complex64", "cdouble": "complex128",
    "int": "int64", "long": "int64", "short": "int16", "char": "int8", "float_": "float64",
    "int_": "int64", "bool_": "bool", "complex_": "complex128", "uint": "uint64",
    "single": "float32", "inference_mode": "no_grad", "tree_util": "tree",
}  # fmt: skip

_WRITTEN = {
    # modules
    "np": "import numpy as np", "jnp": "Its functions are in pb itself: pb.sin(x).",
    "numpy": "Its functions are in pb itself: pb.sin(x).",
    "lax": "Its functions are in pb itself: pb.scan(f, init, xs).",
    "F": "pb.nn.functional",
    "scipy": "Its functions are in pb.special, pb.linalg and pb.fft.",
    "autograd": "pb.grad(f) or loss.backward()",
    "func": "Its functions are in pb itself: pb.grad(f).", "autodiff": "pb.grad(f)",
    "experimental": "Its functions are in pb itself: pb.shard_map(f, ...).",
    "optimizers": "pb.optim",
    "cuda": "Set PULLBACK_PLATFORM=cuda in the environment; pb.engine_info() says what runs.",
    "backends": "pb.engine_info()", "device": "pb.default_device('cpu:0')",
    "profiler": "pb.compile(f).lower(x).cost()", "export": "pb.compile(f).lower(x).save(path)",
    "onnx": "pb.ir.to_stablehlo(module)",
    "losses": "They are in pb.nn.functional: pb.nn.functional.cross_entropy(logits, labels).",
    # derivatives and transforms
    "pmap": "pb.shard_map(f, mesh, in_specs, out_specs)", "make_jaxpr": "print(pb.trace(f, x))",
    "make_fx": "pb.trace(f, x)",
    "closure_convert": "Use f itself: outer tensors that it uses get their gradients.",
    "linear_transpose": "pb.vjp(f, x)[1]", "value_and_gradient": "pb.value_and_grad(f)",
    "elementwise_grad": "pb.vmap(pb.grad(f))", "egrad": "pb.vmap(pb.grad(f))",
    "grad_and_value": "pb.value_and_grad(f)", "functional_call": "f(params, x)",
    "disable_jit": "pb.config(eager=True)", "debug_nans": "pb.config(check_nan=True)",
    "pure_callback": "Programs do not call the host: read x.numpy() outside the transform.",
    "fori": "pb.fori_loop(0, n, body, init)", "ifelse": "pb.cond(p, f, g, x)",
    "script": "pb.compile(f)", "typeof": "pb.Type(x.shape, x.dtype)",
    # devices and processes
    "devices": "pb.distributed.devices()", "local_devices": "pb.distributed.local_devices()",
    "device_count": "len(pb.distributed.devices())",
    "local_device_count": "len(pb.distributed.local_devices())",
    "default_backend": "pb.engine_info()",
    "device_put": "x.to_device(device) or x.shard(mesh, spec)", "device_get": "x.numpy()",
    "set_default_device": "pb.default_device('cpu:0')",
    "set_default_dtype": "pb.default_dtype(pb.float64)",
    "get_default_dtype": "pb.tensor(1.0).dtype", "process_index": "pb.distributed.process_index()",
    "process_count": "pb.distributed.process_count()",
    "set_num_threads": "Set PULLBACK_THREADS in the environment.",
    "get_num_threads": "Set PULLBACK_THREADS in the environment.",
    "use_deterministic_algorithms": "Programs are deterministic already.",
    # random numbers
    "manual_seed": "key = pb.random.key(seed)", "seed": "key = pb.random.key(seed)",
    "PRNGKey": "pb.random.key(seed)", "Generator": "pb.random.key(seed)",
    "rand": "pb.random.uniform(key, shape)", "randn": "pb.random.normal(key, shape)",
    "randint": "pb.random.randint(key, shape, low, high)",
    "rand_like": "pb.random.uniform(key, x.shape)", "randn_like": "pb.random.normal(key, x.shape)",
    "randperm": "pb.random.permutation(key, n)", "normal": "pb.random.normal(key, shape)",
    "bernoulli": "pb.random.bernoulli(key, p)",
    # arrays
    "clone": "x.copy()", "numel": "x.size", "detach": "x.detach()",
    "unsqueeze": "pb.expand_dims(x, axis)", "broadcast_in_dim": "pb.broadcast_to(x, shape)",
    "clamp": "pb.clip(x, low, high)", "clamp_min": "pb.maximum(x, low)",
    "clamp_max": "pb.minimum(x, high)", "mm": "x @ y", "bmm": "x @ y", "mv": "x @ y",
    "batch_matmul": "x @ y", "ger": "pb.outer(x, y)", "rsub": "y - x", "t": "x.T",
    "adjoint": "x.mT.conj()", "t_copy": "x.T", "convert_element_type": "x.astype(dtype)",
    "is_tensor": "isinstance(x, pb.Tensor)", "is_floating_point": "x.dtype.is_float",
    "is_complex": "x.dtype.is_complex", "issubdtype": "pb.isdtype(x.dtype, 'real floating')",
    "copyto": "x.assign(value)", "fill": "pb.full_like(x, value)",
    "index_put": "x.at[indices].set(values)", "scatter_mul": "x.at[indices].multiply(values)",
    "scatter_min": "x.at[indices].min(values)", "scatter_max": "x.at[indices].max(values)",
    "index_update": "x.at[indices].set(values)", "narrow": "x[start : start + length]",
    "slice_in_dim": "x[start:stop]", "dynamic_index_in_dim": "x[i]", "index_in_dim": "x[i]",
    "rev": "pb.flip(x, axis)", "select_n": "pb.where(condition, y, x)",
    "dot_general": "pb.einsum(text, x, y)",
    "var_mean": "pb.var(x), pb.mean(x)", "std_mean": "pb.std(x), pb.mean(x)",
    "aminmax": "pb.min(x), pb.max(x)", "scalar_tensor": "pb.tensor(value)",
    "range": "pb.arange(start, stop, step)", "nditer": "for row in x",
    "printoptions": "np.printoptions(...)", "set_printoptions": "np.set_printoptions(...)",
    "seterr": "pb.config(check_nan=True)", "errstate": "pb.config(check_nan=True)",
    "to_dlpack": "x.__dlpack__()", "savez": "pb.save(path, {name: x})",
    "save_file": "pb.save(path, tree)", "load_file": "pb.load(path)",
    "loadtxt": "pb.asarray(np.loadtxt(path))", "genfromtxt": "pb.asarray(np.genfromtxt(path))",
    "is_grad_enabled": "x.requires_grad", "stop_grad": "pb.stop_gradient(x)",
    # neural networks
    "soft_sign": "pb.softsign(x)", "hard_tanh": "pb.hardtanh(x)",
    "hard_sigmoid": "pb.hardsigmoid(x)", "hard_swish": "pb.hardswish(x)",
    "hard_silu": "pb.hardswish(x)", "standardize": "(x - pb.mean(x)) / pb.std(x)",
    "dot_product_attention": "pb.nn.functional.scaled_dot_product_attention(q, k, v)",
    "initializers": "pb.nn.init",
    "utils": "pb.data.DataLoader",
    "tree_serialise_leaves": "pb.save(path, tree)",
    "tree_deserialise_leaves": "pb.load(path, like=tree)",
    "tree_at": "copy.deepcopy(tree), and set the attribute of the copy",
    # optimizers and trees
    "SGD": "pb.optim.SGD(params, learning_rate)", "Adam": "pb.optim.Adam(params)",
    "adam": "pb.optim.adam(learning_rate)", "sgd": "pb.optim.sgd(learning_rate)",
    "tree_map": "pb.tree.map(f, tree)", "tree_leaves": "pb.tree.leaves(tree)",
    "tree_flatten": "pb.tree.flatten(tree)",
    "tree_unflatten": "pb.tree.unflatten(structure, leaves)",
}  # fmt: skip

_LINALG = {
    "chol": "cholesky", "inverse": "inv", "logdet": "pb.linalg.slogdet(x)[1]", "matrix_exp": "expm",
    "triangular_solve": "solve_triangular", "cholesky_solve": "cho_solve", "dot": "x @ y",
}  # fmt: skip
_RANDOM = {
    "randn": "pb.random.normal(key, shape)", "rand": "pb.random.uniform(key, shape)",
    "random": "pb.random.uniform(key, shape)", "random_sample": "pb.random.uniform(key, shape)",
    "standard_normal": "pb.random.normal(key, shape)", "seed": "pb.random.key(seed)",
    "PRNGKey": "pb.random.key(seed)", "default_rng": "pb.random.key(seed)",
    "RandomState": "pb.random.key(seed)", "Generator": "pb.random.key(seed)",
    "manual_seed": "pb.random.key(seed)", "integers": "pb.random.randint(key, shape, low, high)",
    "shuffle": "pb.random.permutation(key, x)", "standard_exponential": "exponential",
    "standard_gamma": "gamma", "key_data": "A key is a tensor u32[2] already.",
    "wrap_key_data": "A key is a tensor u32[2] already.", "get_state": "A key is all of the state.",
    "set_state": "A key is all of the state.",
}  # fmt: skip
_TREE = {
    "at": "copy.deepcopy(tree), and set the attribute of the copy",
    "tree_map": "map", "tree_leaves": "leaves", "tree_flatten": "flatten", "multimap": "map",
    "tree_unflatten": "unflatten", "tree_structure": "pb.tree.flatten(tree)[1]",
    "register_pytree_node": "register", "register_pytree_node_class": "register",
    "register_static": 'a field of a dataclass with metadata={"static": True}',
    "flatten_with_path": "pb.tree.leaves(tree), pb.tree.paths(tree)",
    "tree_flatten_with_path": "pb.tree.leaves(tree), pb.tree.paths(tree)",
    "leaves_with_path": "pb.tree.leaves(tree), pb.tree.paths(tree)",
    "all": "all(pb.tree.leaves(tree))", "tree_all": "all(pb.tree.leaves(tree))",
    "tree_reduce": "functools.reduce(f, pb.tree.leaves(tree))",
}  # fmt: skip
_OPTIM = {
    "apply_updates": "params, state = optimizer.update(grads, state, params)",
    "lr_scheduler": "pb.optim.schedules", "RMSprop": "RMSProp",
    "multi_transform": "partition", "MultiSteps": "accumulate", "clip": "clip_by_value",
    "clip_grad_norm_": "clip_by_global_norm", "clip_grad_value_": "clip_by_value",
    "cosine_decay_schedule": "pb.optim.schedules.cosine(peak, steps)",
    "linear_schedule": "pb.optim.schedules.linear(start, end, steps)",
    "exponential_decay": "pb.optim.schedules.exponential(start, decay)",
    "polynomial_schedule": "pb.optim.schedules.polynomial(start, end, steps)",
    "join_schedules": "pb.optim.schedules.join(schedules, boundaries)",
    "warmup_cosine_decay_schedule": "pb.optim.schedules.warmup(peak, steps, then=...)",
    "AveragedModel": "ema", "masked": "the argument mask, or pb.optim.partition(rules, labels)",
    "inject_hyperparams": "A learning rate is a schedule or a tensor: changes do not recompile.",
    "scale_by_adam": "chain", "scale": "chain", "add_decayed_weights": "the argument weight_decay",
}  # fmt: skip
_NN = {
    "MultiheadAttention": "MultiHeadAttention", "Dense": "Linear", "Embed": "Embedding",
    "Conv": "pb.nn.Conv2d(in_channels, out_channels, kernel_size)",
    "BatchNorm": "pb.nn.BatchNorm2d(channels)", "Buffer": "State", "Variable": "State",
    "compact": "Set the layers as attributes in __init__, and call them in forward.",
    "Rngs": "pb.nn.rng(key)", "manual_seed": "seed", "filter_grad": "pb.grad(f)",
    "filter_value_and_grad": "pb.value_and_grad(f)", "filter_vmap": "pb.vmap(f)",
    "inference_mode": "model.eval()", "apply_updates": "pb.optim.adam(...).update(...)",
    "partition": "A module is a tree: pb.grad(f)(model) leaves constants alone.",
    "combine": "A module is a tree: pb.grad(f)(model) leaves constants alone.",
    "split": "A module is a tree: pb.tree.flatten(model); pb.split splits a tensor.",
    "merge": "A module is a tree: pb.tree.unflatten(structure, leaves).",
    "state": "model.state_dict()", "update": "model.load_state_dict(values)",
    "Param": "pb.nn.Parameter(data)", "ParameterList": "a list of tensors as an attribute",
    "ParameterDict": "a dict of tensors as an attribute",
    "DataParallel": "Shard the batch: x.shard(mesh, pb.P(...)).",
    "filter_jit": "pb.compile(f)", "utils": "pb.optim.clip_by_global_norm(grads, max_norm)",
}  # fmt: skip
_SCHEDULES = {
    "StepLR": "pb.optim.schedules.exponential(start, decay, every, staircase=True)",
    "MultiStepLR": "piecewise", "ExponentialLR": "exponential", "CosineAnnealingLR": "cosine",
    "LinearLR": "linear", "PolynomialLR": "polynomial", "OneCycleLR": "one_cycle",
    "ConstantLR": "constant", "SequentialLR": "join",
    "LambdaLR": "A schedule is a function of the step: lr=lambda step: 0.1 / (1 + step).",
    "ReduceLROnPlateau": "Set opt.learning_rate between steps: it does not recompile.",
}  # fmt: skip
_SPECIAL = {
    "loggamma": "lgamma", "sigmoid": "pb.sigmoid(x)", "exp2": "pb.exp2(x)", "log1p": "pb.log1p(x)",
    "expm1": "pb.expm1(x)", "modified_bessel_i0": "i0", "modified_bessel_i1": "i1",
    "bessel_j0": "j0", "bessel_j1": "j1", "bessel_y0": "y0", "bessel_y1": "y1",
}  # fmt: skip
_FFT = {
    "next_fast_len": "Any size is computed fast enough.",
}  # fmt: skip
_FUNCTIONAL = {
    **{f"dropout{n}d": "feature_dropout" for n in (1, 2, 3)}, "swish": "silu",
    "bce": "binary_cross_entropy", "log_sigmoid": "logsigmoid",
    "hard_tanh": "hardtanh", "hard_sigmoid": "hardsigmoid", "hard_swish": "hardswish",
    "hard_silu": "hardswish", "upsample": "interpolate",
    "dot_product_attention": "scaled_dot_product_attention",
    "bce_with_logits": "binary_cross_entropy_with_logits",
    "sigmoid_binary_cross_entropy": "binary_cross_entropy_with_logits", "mse": "mse_loss",
    "softmax_cross_entropy": "cross_entropy", "huber": "huber_loss",
    "softmax_cross_entropy_with_integer_labels": "cross_entropy", "nll": "nll_loss",
    "multi_head_attention_forward": "pb.nn.MultiHeadAttention", "hardtanh_": "hardtanh",
    "relu_": "relu", "elu_": "elu",
}  # fmt: skip
_INIT = {
    **{f"{name}_": f"x.assign(pb.nn.init.{name}(x.shape))" for name in ("eye", "ones", "zeros")},
    **{f"{name}_": f"x.assign(pb.nn.init.{name}(x.shape, ...))" for name in ("constant", "dirac")},
    **{f"{name}_": f"x.assign(pb.nn.init.{name}(key, x.shape))" for name in (
        "kaiming_normal", "kaiming_uniform", "normal", "orthogonal", "sparse", "uniform",
        "xavier_normal", "xavier_uniform")},
    "trunc_normal_": "x.assign(pb.nn.init.truncated_normal(key, x.shape))",
    "glorot_normal": "xavier_normal", "glorot_uniform": "xavier_uniform",
    "he_normal": "kaiming_normal", "he_uniform": "kaiming_uniform",
}  # fmt: skip
_DEBUG = {
    "breakpoint": "Use breakpoint() outside the transform.",
}  # fmt: skip

TABLES = {
    "pullback": {name: f"pb.{ours}" for name, ours in _RENAMED.items()} | _WRITTEN,
    "pullback.linalg": _LINALG, "pullback.random": _RANDOM, "pullback.tree": _TREE,
    "pullback.optim": _OPTIM, "pullback.special": _SPECIAL, "pullback.fft": _FFT,
    "pullback.debug": _DEBUG, "pullback.nn": _NN, "pullback.nn.functional": _FUNCTIONAL,
    "pullback.nn.init": _INIT, "pullback.optim.schedules": _SCHEDULES,
}  # fmt: skip
