"""The public functions on tensors, under the names of the Python array API standard."""

from pullback.tensor.creation import asarray as asarray
from pullback.tensor.functions.elementwise import stop_gradient as stop_gradient
from pullback.tensor.functions.reductions import sum as sum
from pullback.tensor.functions.elementwise import astype as astype
