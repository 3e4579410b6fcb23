"""Datasets whose rows were packed beforehand: the sequences in each row, and whether a batch keeps them apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
from numpy.typing import NDArray

from batchplan.torch._row_costs import PackedRows, packed_rows, rows_of_positions

# Columns of the lengths of a row's sequences: TRL's, and NeMo AutoModel's.
_LENGTHS = ("seq_lengths", "seq_lens_padded", "seq_lens")
_POSITIONS = "position_ids"
# Rows whose positions are read at once.
_AT_ONCE = 256

Parts = Iterator[tuple[NDArray[Any], NDArray[Any]]]


def rows_of(dataset: Any) -> PackedRows | None:
    """The rows of a dataset, by its column of their sequences' lengths, or of position_ids, where those begin anew
    with each sequence, and a row's last ones, if zeros, are padding. None: no row has several sequences.

    Raises:
        InvalidRequest: a row has no sequence, or one of no token.
    """
    names = getattr(dataset, "column_names", None)
    if names is None:
        first = dataset[0] if len(dataset) else None
        names = list(first) if isinstance(first, dict) else ()
    column = next((name for name in (*_LENGTHS, _POSITIONS) if name in names), None)
    if column is None or not len(dataset):
        return None
    if hasattr(dataset, "with_format"):
        parts = _lists(dataset.select_columns([column]).with_format("arrow"))
    else:
        parts = _items(dataset, column)
    if column == _POSITIONS:
        parts = (rows_of_positions(*part) for part in parts if len(part[0]))
    lengths, counts = (numpy.concatenate(arrays).astype(numpy.int64) for arrays in zip(*parts))
    rows = PackedRows(lengths, counts)
    return rows if rows.are_packed else None


def _lists(dataset: Any) -> Parts:
    """The values of a column of lists, and how many each has, without making Python's lists of them."""
    import pyarrow.compute

    for table in dataset.iter(batch_size=_AT_ONCE):
        column = table.column(0)
        counts = pyarrow.compute.list_value_length(column)
        yield pyarrow.compute.list_flatten(column).to_numpy(), counts.to_numpy()


def _items(dataset: Any, column: str) -> Parts:
    for place in range(len(dataset)):
        values = numpy.asarray(dataset[place][column])
        yield values, numpy.array([len(values)])


def keeps_apart(batch: Any, lengths: NDArray[numpy.int64]) -> bool:
    """Whether the sequences of a batch's only row don't see each other: by position_ids that begin anew and no mask
    that hides it, by their offsets, or by a mask.

    Args:
        batch: what a collator made of one row.
        lengths: of its sequences, two or more.
    """
    begins = numpy.cumsum(lengths)[:-1]
    mask = batch.get("attention_mask")
    if mask is not None:
        if not hasattr(mask, "ndim"):
            # Of blocks, which are made of what they keep apart.
            return True
        if mask.ndim == 4:
            # Of each first token: the one before it, and itself.
            before, itself = mask[0, 0, begins, begins - 1], mask[0, 0, begins, begins]
            return bool((before != itself).all())
        if mask.ndim == 2 and bool((mask[0, begins] != mask[0, begins - 1]).all()):
            return True
    for name in ("cu_seq_lens_q", "cu_seqlens"):
        if batch.get(name) is not None:
            return set(begins.tolist()) <= set(batch[name].flatten().tolist())
    positions = batch.get(_POSITIONS)
    if positions is None or mask is not None:
        return False
    row = positions.reshape(-1, positions.shape[-1])[0]
    return bool((row[begins] == 0).all())
