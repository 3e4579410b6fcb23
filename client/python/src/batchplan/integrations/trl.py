"""For TRL and Hugging Face datasets: datasets of token lists, packed.

    + from batchplan.integrations import trl
    + trl.install()
      trainer = SFTTrainer(model, SFTConfig(packing=True, max_length=8192), train_dataset=dataset)

Rows come out as full as TRL's own, and are drawn at random: packing alone balances nothing between ranks.
batchplan.integrations.transformers.plan_batches(trainer) then deals them, or TRL's own, by their cost; without
packing it plans the sequences themselves, by which ranks wait even less.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy

import batchplan

DatasetType = TypeVar("DatasetType")
Columns = Mapping[str, Sequence[Any]]


def install() -> None:
    """Has SFTTrainer pack by pack_dataset where packing=True is set, instead of its own. It needs
    packing_strategy="bfd", TRL's default; others raise ValueError, since they split sequences.

    Refused with ValueError from then on, because sequences would attend to their neighbours in the row
    without a word: rows that are packed already, in an SFTTrainer that packs them once more, or by a
    collator whose padding_free is not set.

    Raises:
        ImportError: TRL can't be imported.
    """
    from trl.trainer import sft_trainer

    sft_trainer.pack_dataset = pack_dataset
    _guard()


def pack_dataset(
    dataset: DatasetType,
    seq_length: int,
    strategy: str = "bfd",
    map_kwargs: dict[str, Any] | None = None,
    *,
    columns: Sequence[str] | None = None,
    overlong: str = "truncate",
) -> DatasetType:
    """Packs the rows of a dataset into rows of at most `seq_length` tokens, no sequence split. An SFTTrainer
    that is given the result needs padding_free=True, max_length=None, and packing=False. Where TRL is
    installed, what install() refuses is refused from then on in this process; in another one, that loads
    the result from a file, it takes install().

    Args:
        dataset: a datasets.Dataset or IterableDataset, whose columns are lists of one entry a token; or a
            DatasetDict or IterableDatasetDict of these.
        seq_length: tokens of a packed row, at most.
        strategy: "bfd", which TRL packs by where sequences stay whole; packed is by batchplan's, into as
            few rows or fewer.
        map_kwargs: to dataset.map, which shows the progress: num_proc, batch_size and others. Rows are
            packed within such a batch; 10,000 unless said otherwise.
        columns: which to pack, "input_ids" among them; None: those that are lists of numbers. Others are
            left out. A stream that does not know its columns needs it.
        overlong: longer sequences: "truncate", "drop", or "reject".

    Returns:
        a dataset of the same class: the columns, position_ids that begin at 0 in each sequence, and
        seq_lengths, as TRL's padding-free collators read them.

    Raises:
        ValueError: a column is not there, or has not one entry a token; the rows are packed already; a
            sequence is too long and to be rejected; another strategy.
    """
    if strategy != "bfd":
        raise ValueError(f'strategy is "{strategy}"; must be "bfd": sequences are not split')
    if importlib.util.find_spec("trl") is not None:
        _guard()
    if isinstance(dataset, dict):
        packed_splits: Any = type(dataset)(
            {
                split: pack_dataset(
                    one, seq_length, strategy, map_kwargs, columns=columns, overlong=overlong
                )
                for split, one in dataset.items()
            }
        )
        return packed_splits  # type: ignore[no-any-return]
    source: Any = dataset
    names = source.column_names or columns
    if names is None:
        raise ValueError("columns is not set, and the dataset does not know its columns yet")
    if "seq_lengths" in names:
        raise ValueError("the dataset has seq_lengths: its rows are packed already")
    if columns is None:
        columns = _token_columns(names, getattr(source, "features", None))
    source = source.select_columns(list(columns))
    kwargs = {"batch_size": 10_000, **(map_kwargs or {})}
    # An iterable dataset has no bar.
    if hasattr(source, "__len__"):
        kwargs.setdefault("desc", "Packing")
    packed: DatasetType = source.map(
        pack_examples,
        batched=True,
        remove_columns=list(columns),
        fn_kwargs={"seq_length": seq_length, "columns": columns, "overlong": overlong},
        **kwargs,
    )
    return packed


def _token_columns(names: Sequence[str], features: Mapping[str, Any] | None) -> Sequence[str]:
    """Those that are lists of numbers, if the dataset knows; input_ids always, so that an error names it."""
    if features is None:
        return names
    entries = {name: str(getattr(getattr(features[name], "feature", None), "dtype", "")) for name in names}
    numbers = ("int", "uint", "float", "bool")
    return [name for name in names if name == "input_ids" or entries[name].startswith(numbers)]


def _guard() -> None:
    """Wraps what SFTTrainer does to a dataset, and to a batch, by what refuses packed rows there."""
    from trl.trainer import sft_trainer

    prepare = sft_trainer.SFTTrainer._prepare_dataset
    collate = sft_trainer.DataCollatorForLanguageModeling.torch_call
    if hasattr(prepare, "guarded"):
        return

    @functools.wraps(prepare)
    def prepare_unpacked(
        self: Any, dataset: Any, processing_class: Any, args: Any, packing: bool, *others: Any, **named: Any
    ) -> Any:
        if packing and "seq_lengths" in (getattr(dataset, "column_names", None) or ()):
            raise ValueError(
                "packing is True, and the dataset has seq_lengths: its rows are packed already, and "
                "sequences would attend to their neighbours. Set packing=False, padding_free=True, "
                "max_length=None"
            )
        return prepare(self, dataset, processing_class, args, packing, *others, **named)

    @functools.wraps(collate)
    def collate_padding_free(self: Any, examples: list[dict[str, Any]]) -> Any:
        if "seq_lengths" in examples[0] and not self.padding_free:
            raise ValueError(
                "padding_free is False, and the dataset has seq_lengths: its rows are packed, and sequences "
                "would attend to their neighbours. Set padding_free=True, max_length=None"
            )
        return collate(self, examples)

    prepare_unpacked.guarded = True  # type: ignore[attr-defined]
    sft_trainer.SFTTrainer._prepare_dataset = prepare_unpacked
    sft_trainer.DataCollatorForLanguageModeling.torch_call = collate_padding_free


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
    if overlong == "alone":
        raise ValueError('overlong is "alone"; a packed row has at most seq_length tokens')
    kept = numpy.flatnonzero(lengths)
    if overlong == "drop":
        # Maybe all of them, of which no plan can be made.
        kept = kept[lengths[kept] <= seq_length]
    rows: list[list[tuple[int, int]]] = []
    if len(kept):
        plan = batchplan.plan(lengths[kept], max_tokens=seq_length, overlong=overlong)  # type: ignore[arg-type]
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
