"""Reading and writing elements by position."""

from pullback.ops.index import (  # noqa: F401
    along_axis,
    checked_index,
    dynamic_slice,
    indexing,
    last_write,
    scatter,
    scatter_extrema,
)
