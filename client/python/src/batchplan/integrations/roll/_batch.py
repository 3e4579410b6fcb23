"""What ROLL's functions read of a DataProto."""

from __future__ import annotations

import warnings
from typing import Any

import numpy
from numpy.typing import NDArray


def tokens_of(batch: Any) -> NDArray[numpy.int64]:
    """Tokens of each row by its "attention_mask", at least one."""
    return numpy.maximum(_counted(batch), 1)


def lengths_of(batch: Any, stage: str | None = None) -> tuple[NDArray[numpy.int64], int]:
    """Tokens of each row by its "attention_mask", and how many rows have none. Those count as one token,
    with a warning that names the stage."""
    lengths = _counted(batch)
    empty = int((lengths == 0).sum())
    if empty:
        warnings.warn(
            f"attention_mask is zero in {empty} of {len(lengths)} rows{f' of {stage}' if stage else ''}; "
            "each is planned as one token",
            stacklevel=3,
        )
    return numpy.maximum(lengths, 1), empty


def _counted(batch: Any) -> NDArray[numpy.int64]:
    mask = batch.batch["attention_mask"]
    lengths: NDArray[numpy.int64] = mask.reshape(len(mask), -1).sum(-1).cpu().numpy().astype(numpy.int64)
    return lengths
