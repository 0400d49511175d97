"""StableHLO that reads and writes the elements that index arrays select."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from pullback.graph.dtypes import bool_, int32, int64
from pullback.ops.hlo_instructions import hlo_stack_instruction
from pullback.ops.prelude import Type


def lower_index_integers(b: Any, indices: Sequence[Any], shape: tuple[int, ...]) -> list[Any]:
    """The index arrays in one dtype that holds every index into `shape`."""
    dtype = int32 if all(n < 2**31 for n in shape) else int64
    return [b.convert(i, dtype) for i in indices]


def lower_index_vectors(b: Any, indices: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """The index arrays side by side along a new last dimension."""
    return hlo_stack_instruction(b, lower_index_integers(b, indices, shape), len(indices[0].shape))


def _lower_index_window_dims(rank: int, count: int, batched: int, before: int) -> list[int]:
    """The dimensions of the selected elements that do not belong to the index arrays."""
    own = range(batched + before, before + count)
    return [i for i in range(batched, rank) if i not in own]


def gather(
    b: Any, out: Type, x: Any, indices: Sequence[Any], dims: Sequence[int], batched: int = 0,
    before: int = 0, sizes: Sequence[int] = (),
) -> Any:  # fmt: skip
    """Read single elements along `dims`, or blocks of `sizes` if given; indices are unchecked."""
    window = _lower_index_window_dims(out.rank, len(indices[0].shape), batched, before)
    return lower_gather_dims(b, out, x, indices, dims, range(batched), window, sizes)


def lower_gather_dims(
    b: Any, out: Type, x: Any, indices: Sequence[Any], dims: Sequence[int], shared: Sequence[int],
    window: Sequence[int] = (), sizes: Sequence[int] = (),
) -> Any:  # fmt: skip
    """The gather instruction: dimensions `shared` belong to both `x` and the index arrays."""
    if not out.size or not x.type.size:
        return b.full(out, 0)
    single = [1 if i in dims or i in shared else n for i, n in enumerate(x.shape)]
    numbers = (
        f"offset_dims = {list(window)}, collapsed_slice_dims = {[] if sizes else sorted(dims)}, "
        f"operand_batching_dims = {list(shared)}, start_indices_batching_dims = {list(shared)}, "
        f"start_index_map = {list(dims)}, index_vector_dim = {len(indices[0].shape)}"
    )
    return b.op(
        "stablehlo.gather", x, lower_index_vectors(b, indices, x.shape), out=out,
        dimension_numbers=f"#stablehlo.gather<{numbers}>", slice_sizes=tuple(sizes or single),
        indices_are_sorted=False,
    )  # fmt: skip


def lower_scatter(
    b: Any, x: Any, updates: Any, indices: Sequence[Any], dims: Sequence[int], mnemonic: str,
    batched: int = 0, before: int = 0, blocks: bool = False,
) -> Any:  # fmt: skip
    """Write to single elements along `dims`, or blocks; an index out of range writes nothing. The
    binary instruction `mnemonic` combines old and new elements. "set" replaces them: no position
    may be selected twice."""
    window = _lower_index_window_dims(len(updates.shape), len(indices[0].shape), batched, before)
    inserted = [] if blocks else dims
    return lower_scatter_dims(
        b, x, updates, indices, dims, mnemonic, range(batched), window, inserted
    )


def lower_scatter_dims(
    b: Any, x: Any, updates: Any, indices: Sequence[Any], dims: Sequence[int], mnemonic: str,
    shared: Sequence[int], window: Sequence[int], inserted: Sequence[int],
) -> Any:  # fmt: skip
    """The scatter instruction: dimensions `shared` belong to both `x` and the index arrays."""
    numbers = (
        f"update_window_dims = {list(window)}, inserted_window_dims = {sorted(inserted)}, "
        f"input_batching_dims = {list(shared)}, scatter_indices_batching_dims = {list(shared)}, "
        f"scatter_dims_to_operand_dims = {list(dims)}, index_vector_dim = {len(indices[0].shape)}"
    )

    positions = lower_index_vectors(b, indices, x.shape)

    def write(x: Any, updates: Any, mnemonic: str = mnemonic) -> Any:
        def combine(old: Any, new: Any) -> list[Any]:
            return [new if mnemonic == "set" else b.op(name, old, new, out=old.type)]

        name = f"stablehlo.{mnemonic}"
        return b.op(
            "stablehlo.scatter", x, positions, updates, out=x.type,
            regions=b.region([Type((), x.dtype)] * 2, combine),
            scatter_dimension_numbers=f"#stablehlo.scatter<{numbers}>",
            indices_are_sorted=False, unique_indices=mnemonic == "set",
        )  # fmt: skip

    if indices[0].type.size > 1:  # XLA makes a loop of several writes, which reads before
        return write(x, updates)
    return lower_index_write_apart(b, x, updates, write, lambda x, new: write(x, new, "set"))


def lower_block_update(b: Any, x: Any, block: Any, starts: Sequence[Any]) -> Any:
    """`x` with a block written at `starts`, which XLA moves until the block fits."""

    def write(x: Any, block: Any) -> Any:
        return b.op("stablehlo.dynamic_update_slice", x, block, *starts, out=x.type)

    return lower_index_write_apart(b, x, block, write, write)


def lower_index_write_apart(
    b: Any, x: Any, updates: Any, write: Callable[..., Any], replace: Callable[..., Any]
) -> Any:
    """`write(x, updates)`, where `replace` writes to the same positions without looking at `x`.

    XLA fuses a write with what computes its updates, and writes to `x` in place. Where it might
    overwrite elements of `x` that the updates read later, the new ones are written to a copy.
    """
    if b.literal or not b.may_overlap(x, updates):
        return write(x, updates)
    nowhere = b.full(x.type.with_dtype(bool_), False)
    written = replace(nowhere, b.full(updates.type.with_dtype(bool_), True))
    copy = b.select(written, x, b.full(x.type, 0))
    return b.select(written, write(copy, updates), x)


def lower_last_index_writes(
    b: Any, indices: Sequence[Any], sizes: tuple[int, ...], batched: int = 0
) -> Any:
    """Whether each write is the last one to its position. The writes are numbered, and the highest
    number at each position is read back: a maximum does not depend on the order in which a device
    takes them."""
    shape = indices[0].shape
    out = Type(shape, int32 if math.prod(shape) < 2**31 else int64)
    whole = (*shape[:batched], *sizes)
    if not out.size or not math.prod(whole):
        return b.full(Type(shape, bool_), False)
    dims = range(batched, len(whole))
    numbers = b.reshape(b.iota((out.size,), out.dtype, 0), shape)
    none = b.full(Type(whole, out.dtype), -1)
    highest = lower_scatter(b, none, numbers, indices, dims, "maximum", batched)
    return b.compare("EQ", numbers, gather(b, out, highest, indices, dims, batched))
