"""Datasets whose rows were packed beforehand: the sequences in each row, and whether a batch keeps them apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy
from numpy.typing import NDArray

from batchplan._errors import InvalidRequest
from batchplan.torch._row_costs import PackedRows, rows_of_positions, whole_numbers

# Columns of the lengths of a row's sequences: TRL's, and NeMo AutoModel's.
_LENGTHS = ("seq_lengths", "seq_lens_padded", "seq_lens")
_POSITIONS = "position_ids"
# Rows that are read at once.
_AT_ONCE = 256

Int64s = NDArray[numpy.int64]


class _Part(NamedTuple):
    """Rows next to each other.

    Attributes:
        lengths: of all sequences, row after row.
        counts: sequences of each row.
        widths: tokens of each row, padding included.
    """

    lengths: Int64s
    counts: Int64s
    widths: Int64s


def rows_of(dataset: Any) -> PackedRows | None:
    """The rows of a dataset, by its column of their sequences' lengths, or of position_ids, where those begin anew
    with each sequence. A row's last positions, if zeros, are padding, or a sequence of one token: they count for the
    row's width, and cost nothing. A column whose entries are no lists of whole numbers is none of these. None: no row
    has several sequences.

    Raises:
        InvalidRequest: a row has no sequence, or one of no token, or no entry in the column.
    """
    column, parts = _parts_of(dataset)
    found = list(parts)
    if not found:
        return None
    rows = PackedRows(*map(numpy.concatenate, zip(*found)), name=column)
    return rows if rows.are_packed else None


def are_packed(dataset: Any) -> bool:
    """Whether rows_of finds rows. Reads them only up to the first one that has several sequences.

    Raises:
        InvalidRequest: as rows_of does, of the rows that are read.
    """
    return any((part.counts > 1).any() for part in _parts_of(dataset)[1])


def _parts_of(dataset: Any) -> tuple[str, Iterator[_Part]]:
    """The column that says of which sequences rows are, and what it says; nothing, if there is no such column."""
    first = dataset[0] if len(dataset) and not hasattr(dataset, "with_format") else {}
    names = getattr(dataset, "column_names", None) or (first if isinstance(first, dict) else ())
    for column in (*_LENGTHS, _POSITIONS):
        if column not in names or not len(dataset):
            continue
        if hasattr(dataset, "with_format"):
            lists = _lists(dataset.select_columns([column]).with_format("arrow"), column)
        else:
            lists = _items(dataset, column)
        if lists is not None:
            return column, _parts(lists, column)
    return "", iter(())


def _parts(lists: Iterator[tuple[Int64s, Int64s]], column: str) -> Iterator[_Part]:
    first = 0
    for values, counts in lists:
        if not counts.all():
            row = first + int(counts.argmin())
            raise InvalidRequest(f"{column}[{row}] is empty; every row has at least one sequence")
        first += len(counts)
        if column == _POSITIONS:
            yield _Part(*rows_of_positions(values, counts), counts)
        else:
            yield _Part(values, counts, numpy.add.reduceat(values, numpy.cumsum(counts) - counts))


def _lists(dataset: Any, column: str) -> Iterator[tuple[Int64s, Int64s]] | None:
    """The values of a column, and how many each row has, without making Python's lists of them; None: they are
    no lists of whole numbers."""
    from pyarrow import types

    kind = dataset[:1].column(0).type
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return _tables(dataset, column) if is_list and types.is_integer(kind.value_type) else None


def _tables(dataset: Any, column: str) -> Iterator[tuple[Int64s, Int64s]]:
    import pyarrow.compute

    first = 0
    for table in dataset.iter(batch_size=_AT_ONCE):
        lists = table.column(0)
        counts = pyarrow.compute.list_value_length(lists)
        values = pyarrow.compute.list_flatten(lists)
        if counts.null_count or values.null_count:
            row = next(row for row, one in enumerate(lists.to_pylist()) if one is None or None in one)
            raise InvalidRequest(_missing(column, first + row, lists[row].as_py()))
        first += len(counts)
        yield values.to_numpy().astype(numpy.int64), counts.to_numpy().astype(numpy.int64)


def _items(dataset: Any, column: str) -> Iterator[tuple[Int64s, Int64s]] | None:
    """As _lists, of a dataset of any kind, by its first row."""
    return _arrays(dataset, column) if whole_numbers(dataset[0][column]) is not None else None


def _arrays(dataset: Any, column: str) -> Iterator[tuple[Int64s, Int64s]]:
    for first in range(0, len(dataset), _AT_ONCE):
        rows = []
        for row in range(first, min(first + _AT_ONCE, len(dataset))):
            entry = dataset[row].get(column)
            values = whole_numbers(entry)
            if values is None:
                raise InvalidRequest(_missing(column, row, entry))
            rows.append(values)
        yield numpy.concatenate(rows), numpy.array([len(values) for values in rows])


def _missing(column: str, row: int, entry: Any) -> str:
    return f"{column}[{row}] is {entry!r}; must be a list of whole numbers, as those of other rows are"


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
