# mypy: implicit-reexport
"""pullback: tensors with gradients that can be trusted and read.

The functions on tensors are listed in `pullback.functions`, all other public names in `__all__`.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

import pullback.interop.dlpack
import pullback.interop.numpy  # sets its hooks
import pullback.ops  # enters every op into the table
import pullback.static  # prints graphs
from pullback import debug, distributed, errors, functions, ir, random, tree, typing
from pullback.api import checkpoint_policies
from pullback.api.apply_along_axis import apply_along_axis, apply_over_axes
from pullback.api.associative_scan import associative_scan
from pullback.api.auto_shard import auto_shard
from pullback.api.check_grads import check_grads
from pullback.api.checkpoint import checkpoint, checkpoint_name
from pullback.api.collectives import (
    all_gather,
    all_to_all,
    axis_index,
    axis_size,
    pmax,
    pmean,
    pmin,
    ppermute,
    psum,
    psum_scatter,
    pvary,
    reduce_scatter,
)
from pullback.api.cond_switch import cond, switch
from pullback.api.custom_vjp_jvp import custom_jvp, custom_vjp
from pullback.api.divisors import gcd, lcm
from pullback.api.eval_shape import eval_shape
from pullback.api.fromfunction import fromfunction
from pullback.api.grad import grad, value_and_grad
from pullback.api.gradients import gradients
from pullback.api.jacobian import hessian, jacfwd, jacobian, jacrev
from pullback.api.loops import fori_loop, map, scan, while_loop
from pullback.api.memory_plan import MemoryPlan, memory_plan
from pullback.api.shard_map import shard_map
from pullback.api.trace import Trace, backward_on_trace, trace
from pullback.api.user_ops import apply, op
from pullback.api.vectorize import vectorize
from pullback.api.vjp_jvp import hvp, jvp, linearize, vjp
from pullback.api.vmap import vmap
from pullback.compiled.compile import compile, load_compiled
from pullback.errors import PullbackError
from pullback.functions import *  # noqa: F403
from pullback.graph.boundary import publish
from pullback.graph.dtypes import (
    DType,
    bfloat16,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from pullback.graph.dtypes import bool_ as bool
from pullback.graph.types import Type
from pullback.lazy.devices import default_device
from pullback.lazy.evaluate import evaluate, wait
from pullback.lazy.hooks import hooks as _hooks
from pullback.lazy.info import cache_info, clear_cache, engine_info
from pullback.lazy.methods import API_VERSIONS as _API_VERSIONS
from pullback.lazy.settings import config, default_dtype, no_grad, no_recompile
from pullback.lazy.tensor import Tensor
from pullback.ops.elementwise.elementwise import Elementwise
from pullback.ops.prelude import Composite, Op
from pullback.sharding.cost import Machine
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.plan import ShardingPlan
from pullback.sharding.spec import P, Sharding
from pullback.version import __version__ as __version__

if TYPE_CHECKING:
    from pullback import data, fft, io, linalg, nn, optim, special, testing, train
    from pullback.io import load, save

_hooks.namespace, _hooks.dlpack = pullback, pullback.interop.dlpack
if "einops" in sys.modules:
    importlib.import_module("pullback.interop.einops_backend")

# the constants of the array API standard
__array_api_version__ = _API_VERSIONS[-1]
e, pi, inf, nan, newaxis = 2.718281828459045, 3.141592653589793, float("inf"), float("nan"), None

if not TYPE_CHECKING:  # checkers export every import above, and know all names
    __all__ = [
        # tensors, their types and settings
        "Tensor", "Type", "DType", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16",
        "uint32", "uint64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
        "e", "inf", "nan", "newaxis", "pi",
        "config", "default_device", "default_dtype", "no_grad", "no_recompile",
        "evaluate", "wait", "cache_info", "clear_cache", "engine_info",
        # functions on tensors
        *functions.__all__, "apply_along_axis", "apply_over_axes", "fromfunction", "gcd", "lcm",
        "vectorize", "fft", "linalg", "random", "special",
        # derivatives
        "grad", "value_and_grad", "gradients", "vjp", "jvp", "linearize", "hvp", "jacobian",
        "jacfwd", "jacrev", "hessian", "check_grads", "custom_jvp", "custom_vjp", "checkpoint",
        "checkpoint_name", "checkpoint_policies", "memory_plan", "MemoryPlan",
        # batching, loops and choices
        "vmap", "map", "scan", "associative_scan", "fori_loop", "while_loop", "cond", "switch",
        # programs
        "compile", "load_compiled", "trace", "backward_on_trace", "Trace", "eval_shape", "ir",
        # sharding and communication
        "DeviceMesh", "P", "Sharding", "ShardingPlan", "Machine", "shard_map", "auto_shard",
        "all_gather", "all_to_all", "axis_index", "axis_size", "pmax", "pmean", "pmin", "ppermute",
        "psum", "psum_scatter", "pvary", "reduce_scatter", "distributed",
        # new ops
        "Op", "Elementwise", "Composite", "apply", "op",
        # files
        "io", "load", "save",
        # modules
        "data", "debug", "errors", "nn", "optim", "testing", "train", "tree", "typing",
        "PullbackError",
    ]  # fmt: skip

    def __getattr__(name: str) -> object:
        """Load a heavy module at its first use."""
        if name in ("load", "save"):
            return getattr(importlib.import_module("pullback.io"), name)
        return importlib.import_module(f"pullback.{name}")

    publish(__name__)

    def __dir__() -> list[str]:
        return sorted(__all__)
