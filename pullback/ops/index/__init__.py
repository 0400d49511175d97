"""Reading and writing elements by position."""

from pullback.ops.index import along_axis, dynamic_slice, indexing, scatter, scatter_extrema  # noqa: F401
