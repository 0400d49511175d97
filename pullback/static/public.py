"""The names of `pullback.ir`, which loads this module at their first use."""

from pullback.graph.boundary import publish
from pullback.interop.stablehlo.reader import from_stablehlo
from pullback.interop.stablehlo.writer import to_stablehlo
from pullback.static.autodiff import Gradient, GradientOptions, autodiff
from pullback.static.catalogue import CATALOGUE
from pullback.static.descriptions import extensions
from pullback.static.function_conversion import from_function, to_function
from pullback.static.module import IRModule as Module
from pullback.static.module import canonicalise, fingerprint, verify
from pullback.static.parser import parse
from pullback.static.run_module import run

__all__ = [
    "CATALOGUE", "Gradient", "GradientOptions", "Module", "autodiff", "canonicalise", "extensions",
    "fingerprint", "from_function", "from_stablehlo", "parse", "run", "to_function", "to_stablehlo",
    "verify",
]  # fmt: skip


publish(__name__)
