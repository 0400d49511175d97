# ruff: noqa: F403, F405
"""The public functions on tensors, under the names of the Python array API standard."""

import sys
from typing import TYPE_CHECKING

from pullback.functions import tree_ravel  # noqa: F401 - sets `tree.ravel`
from pullback.functions.activations import *
from pullback.functions.along_axis import *
from pullback.functions.angles import *
from pullback.functions.arithmetic import *
from pullback.functions.atleast_ranks import *
from pullback.functions.averages import *
from pullback.functions.barriers import *
from pullback.functions.bitwise import *
from pullback.functions.choosing import *
from pullback.functions.combinatorics import *
from pullback.functions.comparisons import *
from pullback.functions.complex_parts import *
from pullback.functions.convolution import *
from pullback.functions.covariance import *
from pullback.functions.creation import *
from pullback.functions.cumulative import *
from pullback.functions.data_types import *
from pullback.functions.diagonals import *
from pullback.functions.differences import *
from pullback.functions.distances import *
from pullback.functions.dynamic_slices import *
from pullback.functions.einsums import *
from pullback.functions.exponentials import *
from pullback.functions.flip_roll_resize import *
from pullback.functions.floating_point import *
from pullback.functions.histograms import *
from pullback.functions.index_tuples import *
from pullback.functions.index_updates import *
from pullback.functions.insert_delete import *
from pullback.functions.integration import *
from pullback.functions.interpolation import *
from pullback.functions.joining import *
from pullback.functions.log_spaces import *
from pullback.functions.masking import *
from pullback.functions.matrix_vector import *
from pullback.functions.namespace_info import *
from pullback.functions.nan_reductions import *
from pullback.functions.nan_replacement import *
from pullback.functions.nonzero_elements import *
from pullback.functions.normalizing import *
from pullback.functions.numpy_names import *
from pullback.functions.one_hot_vectors import *
from pullback.functions.packing import *
from pullback.functions.padding import *
from pullback.functions.polynomial_fit import *
from pullback.functions.polynomials import *
from pullback.functions.pooling import *
from pullback.functions.predicates import *
from pullback.functions.products import *
from pullback.functions.putting import *
from pullback.functions.quantiles import *
from pullback.functions.reductions import *
from pullback.functions.repeating import *
from pullback.functions.rounding import *
from pullback.functions.segments import *
from pullback.functions.set_operations import *
from pullback.functions.shape import *
from pullback.functions.sharding import *
from pullback.functions.slice_notation import *
from pullback.functions.slice_notation import SliceNotation
from pullback.functions.sliding_windows import *
from pullback.functions.sorted_search import *
from pullback.functions.sorting import *
from pullback.functions.special import *
from pullback.functions.splitting import *
from pullback.functions.stacking import *
from pullback.functions.statistics import *
from pullback.functions.trigonometry import *
from pullback.functions.unique_elements import *
from pullback.functions.vandermonde import *
from pullback.functions.weighted_products import *
from pullback.functions.where_take import *
from pullback.functions.window_functions import *
from pullback.interop.dlpack import from_dlpack as from_dlpack
from pullback.lazy import foreign_names, methods
from pullback.lazy.hooks import hooks
from pullback.lazy.host_data import asarray as asarray
from pullback.lazy.host_data import tensor as tensor
from pullback.lazy.torch_names import TorchNames

if not TYPE_CHECKING:  # checkers export what `*` imports, unless there is an `__all__`
    __all__ = sorted(
        name for name, value in globals().items()
        if isinstance(value, SliceNotation) or (callable(value) and not isinstance(value, type))
        if name[0] != "_" or name == "__array_namespace_info__"
    )  # fmt: skip

hooks.functions = sys.modules[__name__]
hooks.reshard, hooks.stack, hooks.stop_gradient = reshard, stack, stop_gradient
methods.bind_methods(hooks.functions, methods.Methods, TorchNames)
foreign_names.add_foreign_names(hooks.functions.__all__)
