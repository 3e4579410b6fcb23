"""All fields of a micro-batch in one packed row."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy
import torch

from batchplan._micro_batch import MicroBatch
from batchplan.torch._batch_field import BatchField, Filling, Sequences
from batchplan.torch._boundaries import needs_seq_idx
from batchplan.torch._moves import ids, pack_all, spread, unpack
from batchplan.torch._row import PackedRow, microbatch_of
from batchplan.torch._sums import sums


class PackedBatch(Mapping[str, torch.Tensor]):
    """A micro-batch as a model takes it: its fields by name, [row.width, ...] each.

        packed = PackedBatch(microbatch, {"input_ids": input_ids, "labels": labels},
                             pad_values={"labels": -100}, shifts={"labels": 1})
        hidden = model(packed["input_ids"], packed.position_ids, **packed.flash_attention())

    Attributes:
        row: where its sequences lie.
        position_ids: from 0 in every sequence, going on through its padding; the tail's from 0. int64,
            [row.width].
        pad_values: as given.
        sequence_ids: each token's sequence, by its place in the micro-batch; -1 in the tail. int64.
    """

    def __init__(
        self,
        microbatch: MicroBatch | PackedRow,
        fields: Mapping[str, Sequences],
        *,
        per_sequence: Mapping[str, torch.Tensor] | None = None,
        pad_values: Mapping[str, float] | None = None,
        shifts: Mapping[str, int] | None = None,
        gathered: bool = False,
        cp: int | None = None,
        cp_rank: int | Literal["own"] | None = "own",
        zigzag: bool = True,
    ) -> None:
        """
        Args:
            microbatch: or its row, which then has the device, cp, cp_rank and zigzag.
            fields: one entry a token: [rows, tokens, ...] padded, nested tensors, or lists of
                [tokens, ...]; gradients flow back to them. Padded ones move together in one launch.
            per_sequence: one entry a sequence, [rows], which each of its tokens gets: advantages.
                No gradient.
            pad_values: by name, what padding gets; 0.
            shifts: by name, see pack; 0.
            gathered: the fields hold the micro-batch's sequences alone, in its order.
            cp, cp_rank, zigzag: see PackedRow. The device is that of the fields. Where groups differ in size
                the micro-batch has its own, and no other cp is taken.

        Raises:
            ValueError: a planned sequence is not there, or has fewer tokens than planned, which may be told
                later, see PackedRow; or an argument is of no field, or of a row that has its own.
        """
        if not isinstance(fields, Mapping):
            raise ValueError(f"fields is a {type(fields).__name__}; must be tensors by name")
        per_sequence = per_sequence or {}
        pad_values = pad_values or {}
        shifts = shifts or {}
        for given, known in (
            (pad_values, fields.keys() | per_sequence.keys()),
            (shifts, fields.keys()),
            (per_sequence, per_sequence.keys() - fields.keys()),
        ):
            unknown = sorted(given.keys() - known)
            if unknown:
                raise ValueError(f"{unknown[0]!r} is none of the fields, or one of both kinds")
        planned = microbatch_of(microbatch)
        of_batch = [
            BatchField.of(name, sequences, planned, gathered) for name, sequences in fields.items()
        ]
        if not isinstance(microbatch, PackedRow):
            tensors = [field.values for field in of_batch] + list(per_sequence.values())
            device = getattr(next(iter(tensors), None), "device", "cpu")
            self.row = PackedRow(microbatch, device=device, cp=cp, cp_rank=cp_rank, zigzag=zigzag)
        elif (cp, cp_rank, zigzag) == (None, "own", True):
            self.row = microbatch
        else:
            raise ValueError("cp, cp_rank and zigzag are those of the row that is given")
        fillings = [
            Filling.of(name, pad_values.get(name, 0), shifts.get(name, 0), field.values.dtype)
            for name, field in zip(fields, of_batch)
        ]
        packed = pack_all(self.row, of_batch, fillings)
        self._fields = dict(zip(fields, packed))
        for name, values in per_sequence.items():
            _check_per_sequence(self.row, name, values, gathered)
            filling = Filling.of(name, pad_values.get(name, 0), 0, values.dtype)
            self._fields[name] = spread(self.row, values, filling.pad_value, not gathered)
        self.pad_values = dict(pad_values)
        self.position_ids, self.sequence_ids = ids(self.row, torch.int64)

    def __getitem__(self, name: str) -> torch.Tensor:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        """Fields; len(packed.row) is that of sequences."""
        return len(self._fields)

    def flash_attention(self) -> dict[str, Any]:
        """Arguments of flash_attn_varlen_func. What is left of the row is one sequence more, so that
        every token attends to something, and nothing to what was never written.

        Raises:
            ValueError: of one rank's shards under context parallelism, which attention needs more than.
        """
        if self.row.cp > 1:
            raise ValueError(
                f"cp is {self.row.cp}: attention goes over the ranks, by packed_seq_params()"
            )
        offsets, longest = self._with_tail(apart=True)
        return {
            "cu_seqlens_q": offsets,
            "cu_seqlens_k": offsets,
            "max_seqlen_q": longest,
            "max_seqlen_k": longest,
        }

    def packed_seq_params(self) -> dict[str, Any]:
        """Arguments of Megatron-Core's PackedSeqParams, for TransformerEngine's attention, with and
        without context parallelism. What is left of the row is taken in by the last sequence's padding,
        or under context parallelism, which divides each sequence, by an empty sequence of its own. Without
        it, where nothing is padded, there are no padded offsets: TransformerEngine is faster so. Where
        groups differ in size there are, and local_cp_size, the ranks of this one; its process group, cp_group,
        is yours to add. total_tokens, of the row on all its ranks, is there if the Megatron-Core that is
        imported has it: Mamba's layers find boundaries with it."""
        apart = self.row.cp > 1 or not len(self.row)
        padded, longest = self._with_tail(apart)
        true = self.row.cu_seqlens.clone()
        if len(padded) > len(true):
            true = torch.cat([true, true[-1:]])
        arguments = {
            "qkv_format": "thd",
            "cu_seqlens_q": true,
            "cu_seqlens_kv": true,
            "max_seqlen_q": longest,
            "max_seqlen_kv": longest,
        }
        is_dynamic = self.row.microbatch.is_dynamic
        if self.row.cp > 1 or is_dynamic or self._whole != self.row.microbatch.cu_seqlens[-1]:
            arguments |= {"cu_seqlens_q_padded": padded, "cu_seqlens_kv_padded": padded}
        if is_dynamic:
            arguments["local_cp_size"] = self.row.cp
        megatron = sys.modules.get("megatron.core.packed_seq_params")
        if "total_tokens" in getattr(getattr(megatron, "PackedSeqParams", None), "__annotations__", ()):
            arguments["total_tokens"] = self._whole
        return arguments

    def transformers(self, model: Any) -> dict[str, Any]:
        """Arguments of a causal model of Hugging Face's transformers: input_ids and position_ids, shape
        [1, row.width], where sequences begin, as its flash attention takes it, and use_cache=False: with
        a cache, eager attention and SDPA look past the boundaries between sequences, without they keep them.
        Models with a state, such as Bamba or LFM2, get seq_idx too: each token's sequence, int32,
        [1, row.width].
        Labels are none of them, as a model's own loss goes over the boundaries: see PackedLoss.

            logits = model(**packed.transformers(model)).logits[0]

        Args:
            model: is tried once, on two sequences of a few tokens, without touching its gradients; if its
                parameters are divided among ranks (FSDP, ZeRO-3), before they are or on all ranks at once.

        Raises:
            ValueError: the model does not keep packed sequences apart, or not without kernels that are missing;
                the batch has no input_ids; or it is one rank's shards under context parallelism.
        """
        arguments = self.transformers_arguments()
        if needs_seq_idx(model, self.row.device):
            arguments["seq_idx"] = self.seq_idx()
        return arguments

    def transformers_arguments(self) -> dict[str, Any]:
        """Those of any model; see transformers."""
        if "input_ids" not in self._fields:
            raise ValueError(f"the fields are {', '.join(self)}; input_ids must be among them")
        boundaries = self.flash_attention()
        return {
            "input_ids": self["input_ids"][None],
            "position_ids": self.position_ids[None],
            "cu_seq_lens_q": boundaries["cu_seqlens_q"],
            "cu_seq_lens_k": boundaries["cu_seqlens_k"],
            "max_length_q": boundaries["max_seqlen_q"],
            "max_length_k": boundaries["max_seqlen_k"],
            "use_cache": False,
        }

    def seq_idx(self) -> torch.Tensor:
        """Each token's sequence as kernels of state-space models take it, int32, [1, row.width]. The tail is one
        more sequence."""
        ids = self.sequence_ids[None].to(torch.int32)
        return torch.where(ids < 0, len(self.row), ids)

    def unpack(self, packed: torch.Tensor, **options: Any) -> torch.Tensor:
        """unpack() of this row."""
        return unpack(self.row, packed, **options)

    def sums(
        self, values: torch.Tensor, weights: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """sums() of this row."""
        return sums(self.row, values, weights)

    @property
    def _whole(self) -> int:
        """Tokens of the row on all its ranks."""
        return self.row.width * (self.row.cp if self.row.cp_rank is not None else 1)

    def _with_tail(self, apart: bool) -> tuple[torch.Tensor, int]:
        """cu_seqlens_padded up to the row's end, with the tail as a sequence or in the last one's
        padding; and the longest sequence by it."""
        offsets = self.row.microbatch.cu_seqlens_padded
        if offsets[-1] < self._whole:
            offsets = numpy.append(offsets if apart else offsets[:-1], numpy.int32(self._whole))
        longest = int(numpy.diff(offsets).max(initial=0))
        return torch.tensor(offsets, device=self.row.device), longest

    def __repr__(self) -> str:
        return f"<PackedBatch: {', '.join(self)} of {len(self.row)} sequences in {self.row.width} tokens>"


def _check_per_sequence(row: PackedRow, name: str, values: torch.Tensor, gathered: bool) -> None:
    if not isinstance(values, torch.Tensor):
        raise ValueError(f"{name} is a {type(values).__name__}; must be a tensor (rows,)")
    if values.ndim != 1:
        raise ValueError(f"{name} has shape {tuple(values.shape)}; must be (rows,)")
    if values.requires_grad:
        raise ValueError(f"{name} needs a gradient, which one entry a sequence does not get")
    if values.device != row.device:
        raise ValueError(f"{name} is on {values.device}; the row is on {row.device}")
    needed = len(row) if gathered else int(row.microbatch.indices.max(initial=0)) + 1
    if (len(values) != needed) if gathered else (len(values) < needed and len(row) > 0):
        raise ValueError(f"{name} has {len(values)} rows; the micro-batch needs {needed}")
