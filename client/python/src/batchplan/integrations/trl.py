"""For TRL and Hugging Face datasets: datasets of token lists, packed.

    - from trl import pack_dataset
    + from batchplan.integrations.trl import pack_dataset
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy

import batchplan

DatasetType = TypeVar("DatasetType")
Columns = Mapping[str, Sequence[Any]]


def pack_dataset(
    dataset: DatasetType,
    seq_length: int,
    strategy: str = "bfd",
    map_kwargs: dict[str, Any] | None = None,
    *,
    columns: Sequence[str] | None = None,
    overlong: str = "truncate",
) -> DatasetType:
    """Packs the rows of a dataset into rows of at most `seq_length` tokens, no sequence split.

    Args:
        dataset: a datasets.Dataset or IterableDataset, whose columns are lists of one entry a token.
        seq_length: tokens of a packed row, at most.
        strategy: "bfd", which TRL packs by where sequences stay whole; packed is by batchplan's, into as
            few rows or fewer.
        map_kwargs: to dataset.map, which shows the progress: num_proc, batch_size and others. Rows are
            packed within such a batch; 10,000 unless said otherwise.
        columns: which to pack, "input_ids" among them; None: all. Others are left out. A stream that
            does not know its columns needs it.
        overlong: longer sequences: "truncate", "drop", or "reject".

    Returns:
        a dataset of the same class: the columns, position_ids that begin at 0 in each sequence, and
        seq_lengths, as TRL's padding-free collators read them.

    Raises:
        ValueError: a column is not there, or has not one entry a token; a sequence is too long and to be
            rejected; another strategy.
    """
    if strategy != "bfd":
        raise ValueError(f'strategy is "{strategy}"; must be "bfd": sequences are not split')
    source: Any = dataset
    if columns is not None:
        source = source.select_columns(list(columns))
    names = source.column_names or columns
    if names is None:
        raise ValueError("columns is not set, and the dataset does not know its columns yet")
    kwargs = {"batch_size": 10_000, **(map_kwargs or {})}
    # An iterable dataset has no bar.
    if hasattr(source, "__len__"):
        kwargs.setdefault("desc", "Packing")
    packed: DatasetType = source.map(
        pack_examples,
        batched=True,
        remove_columns=list(names),
        fn_kwargs={"seq_length": seq_length, "columns": columns, "overlong": overlong},
        **kwargs,
    )
    return packed


def pack_examples(
    examples: Columns,
    seq_length: int,
    columns: Sequence[str] | None = None,
    overlong: str = "truncate",
) -> dict[str, list[list[Any]]]:
    """The same for a batch of rows in memory, by column; what pack_dataset maps."""
    names = list(examples if columns is None else columns)
    if "input_ids" not in names:
        raise ValueError(f"columns are {', '.join(names)}; input_ids must be among them")
    for name in names:
        if name not in examples:
            raise ValueError(f"columns has {name}, which is none of {', '.join(examples)}")
    tokens = examples["input_ids"]
    for row, one in enumerate(tokens):
        if not hasattr(one, "__len__"):
            raise ValueError(f"input_ids[{row}] is {one!r}; must be a list of tokens")
    lengths = numpy.array([len(one) for one in tokens], dtype=numpy.int64)
    for name in names:
        if len(examples[name]) != len(tokens):
            raise ValueError(f"{name} has {len(examples[name])} rows; input_ids has {len(tokens)}")
        for row, (entries, length) in enumerate(zip(examples[name], lengths)):
            if not hasattr(entries, "__len__") or len(entries) != length:
                raise ValueError(f"{name}[{row}] has not one entry for each of {length} tokens")
    kept = numpy.flatnonzero(lengths)
    if overlong == "drop":
        # Maybe all of them, of which no plan can be made.
        kept = kept[lengths[kept] <= seq_length]
    rows: list[list[tuple[int, int]]] = []
    if len(kept):
        plan = batchplan.plan(lengths[kept], max_tokens=seq_length, overlong=overlong)
        rows = [
            list(zip(kept[one.indices].tolist(), one.lengths.tolist())) for one in plan.rank(0) if len(one)
        ]
    packed: dict[str, list[list[Any]]] = {
        name: [
            list(itertools.chain.from_iterable(examples[name][index][:length] for index, length in row))
            for row in rows
        ]
        for name in names
    }
    packed["position_ids"] = [
        list(itertools.chain.from_iterable(range(length) for _, length in row)) for row in rows
    ]
    packed["seq_lengths"] = [[length for _, length in row] for row in rows]
    return packed
