"""All fields of a micro-batch in one packed row."""

from __future__ import annotations

import functools
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy
import torch

from batchplan._micro_batch import MicroBatch
from batchplan.torch._batch_field import ZEROS, BatchField, Filling, Sequences, device_of
from batchplan.torch._boundaries import mask_for, needs_seq_idx
from batchplan.torch._moves import ids, pack_all, spread, unpack
from batchplan.torch._row import PackedRow, microbatch_of
from batchplan.torch._shared_prefixes import ranges
from batchplan.torch._sums import sums
from batchplan.torch._whole_sequences import WholeSequences


class PackedBatch(Mapping[str, torch.Tensor]):
    """A micro-batch as a model takes it: its fields by name, [row.width, ...] each.

        packed = PackedBatch(microbatch, {"input_ids": input_ids, "labels": labels},
                             pad_values={"labels": -100}, shifts={"labels": 1})
        hidden = model(packed["input_ids"], packed.position_ids, **packed.flash_attention())

    Where sequences share prefixes (MicroBatch.shared_tokens), the row has what is new in each, and attention goes by
    block_mask(), flashmask() or ranges(). A token may be of several sequences, which may have other labels, masks
    and advantages for it: the loss is one of whole sequences, see unpack and PackedLoss.

        logits = model(packed["input_ids"], packed.position_ids, packed.block_mask())
        logits_of_sequences = packed.unpack(logits)           # [n, longest, vocabulary]

    Attributes:
        row: where its sequences lie.
        position_ids: from 0 in every sequence, going on through its padding; the tail's from 0. Where prefixes are
            shared, places in the whole sequence. int64, [row.width].
        pad_values: as given.
        sequence_ids: each token's sequence, by its place in the micro-batch; where prefixes are shared, the first
            of the token's. -1 in the tail. int64.
        whole_sequences: where prefixes are shared, the fields of the sequences, as PackedLoss gives them to the loss;
            else None.
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
        equal_prefixes: Sequence[str] = (),
        cp: int | None = None,
        cp_rank: int | Literal["own"] | None = "own",
        zigzag: bool = True,
    ) -> None:
        """
        Args:
            microbatch: or its row, which then has the device, cp, cp_rank and zigzag.
            fields: one entry a token: [rows, tokens, ...] padded, nested tensors, or lists of
                [tokens, ...]; gradients flow back to them. Padded ones move together in one launch. Where prefixes
                are shared, a token gets what the first of its sequences has, and no gradient flows.
            per_sequence: one entry a sequence, [rows], which each of its tokens gets: advantages.
                No gradient. Where prefixes are shared, for PackedLoss alone: the row has none of them.
            pad_values: by name, what padding gets; 0.
            shifts: by name, see pack; 0.
            equal_prefixes: names of fields to be compared where prefixes are shared: the tokens that are in common must
                be equal, such as those of input_ids. Waits for the device.
            gathered: the fields hold the micro-batch's sequences alone, in its order.
            cp, cp_rank, zigzag: see PackedRow. The device is that of the fields. Where groups differ in size
                the micro-batch has its own, and no other cp is taken.

        Raises:
            ValueError: a planned sequence is not there, or has fewer tokens than planned, which may be told
                later, see PackedRow; an argument is of no field, or of a row that has its own; or prefixes are
                shared, and there is a shift, or tokens of equal_prefixes differ.
        """
        if not isinstance(fields, Mapping):
            raise ValueError(f"fields is a {type(fields).__name__}; must be tensors by name")
        per_sequence = per_sequence or {}
        pad_values = pad_values or {}
        shifts = shifts or {}
        if pad_values or shifts or per_sequence or equal_prefixes:
            _check_names(fields, per_sequence, pad_values, shifts, equal_prefixes)
        if not isinstance(microbatch, PackedRow):
            first = next(iter((fields or per_sequence).values()), None)
            device = device_of(first, microbatch_of(microbatch), gathered)
            self.row = PackedRow(microbatch, device=device, cp=cp, cp_rank=cp_rank, zigzag=zigzag)
        elif (cp, cp_rank, zigzag) == (None, "own", True):
            self.row = microbatch
        else:
            raise ValueError("cp, cp_rank and zigzag are those of the row that is given")
        row = self.row
        of_batch = [BatchField.of(name, sequences, row, gathered) for name, sequences in fields.items()]
        fillings = [ZEROS] * len(of_batch)
        if pad_values or shifts:
            fillings = [
                Filling.of(one.name, pad_values.get(one.name, 0), shifts.get(one.name, 0), one.values.dtype)
                for one in of_batch
            ]
        self._fields = dict(zip(fields, pack_all(row, of_batch, fillings)))
        for name, values in per_sequence.items():
            _check_per_sequence(self.row, name, values, gathered)
            filling = Filling.of(name, pad_values.get(name, 0), 0, values.dtype)
            if self.row.shares:
                continue
            self._fields[name] = spread(self.row, values, filling.pad_value, not gathered)
        self.pad_values = dict(pad_values)
        self.whole_sequences: WholeSequences | None = None
        if self.row.shares:
            self.whole_sequences = WholeSequences(row.microbatch, of_batch, per_sequence, gathered)
            for name in equal_prefixes:
                self.whole_sequences.check_equal(name, self.unpack(self._fields[name].detach()))
        self.position_ids, self.sequence_ids = ids(row)

    def __getitem__(self, name: str) -> torch.Tensor:
        if name not in self._fields and self.whole_sequences is not None and name in self.whole_sequences:
            raise KeyError(f"{name} has one entry a sequence, and tokens of the row are of several: see PackedLoss")
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
            ValueError: of one rank's shards under context parallelism, which attention needs more than; or prefixes
                are shared.
        """
        self._refuse_shared("flash_attn_varlen_func, which")
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
        imported has it: Mamba's layers find boundaries with it.

        Raises:
            ValueError: prefixes are shared.
        """
        self._refuse_shared("TransformerEngine's attention, which")
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
        [1, row.width]. Where prefixes are shared there is an attention_mask in place of where sequences begin:
        block_mask() for flex_attention, else one of all pairs of tokens.
        Labels are none of them, as a model's own loss goes over the boundaries: see PackedLoss.

            logits = model(**packed.transformers(model)).logits[0]

        Args:
            model: is tried once, on two sequences of a few tokens, without touching its gradients; if its
                parameters are divided among ranks (FSDP, ZeRO-3), before they are or on all ranks at once.

        Raises:
            ValueError: the model does not keep packed sequences apart, or not without kernels that are missing;
                prefixes are shared, and it has a state that goes from token to token, or attention that takes no
                mask; the batch has no input_ids; or it is one rank's shards under context parallelism.
        """
        if self.row.shares:
            return {**self.row_arguments(), "attention_mask": mask_for(model, self)}
        arguments = self.transformers_arguments()
        if needs_seq_idx(model, self.row.device):
            arguments["seq_idx"] = self.seq_idx()
        return arguments

    def transformers_arguments(self) -> dict[str, Any]:
        """Those of any model; see transformers."""
        arguments = self.row_arguments()
        boundaries = self.flash_attention()
        return {
            **arguments,
            "cu_seq_lens_q": boundaries["cu_seqlens_q"],
            "cu_seq_lens_k": boundaries["cu_seqlens_k"],
            "max_length_q": boundaries["max_seqlen_q"],
            "max_length_k": boundaries["max_seqlen_k"],
        }

    def row_arguments(self) -> dict[str, Any]:
        """Of transformers_arguments, those that say nothing of attention."""
        if "input_ids" not in self._fields:
            raise ValueError(f"the fields are {', '.join(self)}; input_ids must be among them")
        return {
            "input_ids": self["input_ids"][None],
            "position_ids": self.position_ids[None],
            "use_cache": False,
        }

    def seq_idx(self) -> torch.Tensor:
        """Each token's sequence as kernels of state-space models take it, int32, [1, row.width]. The tail is one
        more sequence.

        Raises:
            ValueError: prefixes are shared.
        """
        self._refuse_shared("a model with a state, which goes from token to token and")
        ids = self.sequence_ids[None].to(torch.int32)
        return torch.where(ids < 0, len(self.row), ids)

    @functools.cached_property
    def subtree_end(self) -> torch.Tensor:
        """Of each token k of the row, the place behind the last one that sees it: token q attends to k if
        k <= q < subtree_end[k]. int32, [row.width]. What is left of the row is one sequence more.

        Raises:
            ValueError: under context parallelism, which divides the row.
        """
        self._refuse_shards()
        return torch.from_numpy(self.row.subtree_ends().copy()).to(self.row.device)

    @functools.cached_property
    def predecessors(self) -> torch.Tensor:
        """Of each token of the sequences, end to end, where in the row the one before it stands, and so the logits that
        predict it; -1 of first ones. int32, [cu_seqlens[-1]]. Sequence i is at cu_seqlens[i] to cu_seqlens[i + 1].

        Raises:
            ValueError: no prefixes are shared.
        """
        if not self.row.shares:
            raise ValueError("the micro-batch has no shared_tokens: the token before is the one before in the row")
        made = torch.empty(int(self.row.microbatch.cu_seqlens[-1]), dtype=torch.int32, device=self.row.device)
        self.row.moves.predecessors(made)
        return made

    def block_mask(self, **options: Any) -> Any:
        """A BlockMask of torch's flex_attention, for queries and keys [batch, heads, row.width, ...].

        Args:
            options: of create_block_mask: BLOCK_SIZE.

        Raises:
            ImportError: torch is older than 2.5, and has no FlexAttention.
            ValueError: under context parallelism, which divides the row; or the row is empty.
        """
        try:
            from torch.nn.attention.flex_attention import create_block_mask
        except ImportError as error:
            raise ImportError(
                f"torch {torch.__version__} has no FlexAttention, which block_mask() is for: it takes torch 2.5 or "
                "later"
            ) from error
        ends = self.subtree_end
        if not len(ends):
            raise ValueError("the row has no tokens, of which FlexAttention makes no mask")

        def sees(batch: Any, head: Any, query: Any, key: Any) -> Any:
            return (key <= query) & (query < ends[key])

        width = self.row.width
        return create_block_mask(sees, None, None, width, width, device=str(self.row.device), **options)

    def flashmask(self) -> dict[str, Any]:
        """Arguments of flashmask_attention: of each key, the first query behind it that does not see it.
        startend_row_indices are int32, [1, 1, row.width, 1].

        Raises:
            ValueError: under context parallelism, which divides the row.
        """
        return {"startend_row_indices": self.subtree_end[None, None, :, None], "causal": True}

    def ranges(self) -> dict[str, torch.Tensor]:
        """Arguments of MagiAttention's flex_flash_attn_func: for each part of each sequence's path, its new tokens
        as queries and the part as keys. q_ranges and k_ranges are int32, [parts, 2]; attn_type_map, int32,
        [parts], is 1 where both are the same tokens, which see those before alone, else 0: they see all.

        Raises:
            ValueError: under context parallelism, which MagiAttention divides by itself.
        """
        self._refuse_shards()
        found = ranges(self.row.microbatch, self.row.width)
        sides = [torch.tensor([one[side] for one in found], dtype=torch.int32).view(-1, 2) for side in (0, 1)]
        kinds = torch.tensor([int(causal) for *_, causal in found], dtype=torch.int32)
        names = ("q_ranges", "k_ranges", "attn_type_map")
        return {name: tensor.to(self.row.device) for name, tensor in zip(names, [*sides, kinds])}

    def unpack(self, packed: torch.Tensor, **options: Any) -> torch.Tensor:
        """unpack() of this row."""
        return unpack(self.row, packed, **options)

    def sums(
        self, values: torch.Tensor, weights: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """sums() of this row."""
        return sums(self.row, values, weights)

    def _refuse_shared(self, what: str) -> None:
        if self.row.shares:
            raise ValueError(
                f"the row's sequences share prefixes: it is not for {what} takes sequences one by one; attention by "
                "block_mask(), flashmask() or ranges() is"
            )

    def _refuse_shards(self) -> None:
        if self.row.cp > 1:
            raise ValueError(f"cp is {self.row.cp}; must be 1: the row is divided among ranks")

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


def _check_names(
    fields: Collection[str],
    per_sequence: Collection[str],
    pad_values: Collection[str],
    shifts: Collection[str],
    equal_prefixes: Collection[str],
) -> None:
    for given, known in (
        (pad_values, {*fields, *per_sequence}),
        (shifts, {*fields}),
        (per_sequence, {*per_sequence} - {*fields}),
        (equal_prefixes, {*fields}),
    ):
        unknown = {*given} - known
        if unknown:
            raise ValueError(f"{min(unknown)!r} is none of the fields, or one of both kinds")


def _check_per_sequence(row: PackedRow, name: str, values: torch.Tensor, gathered: bool) -> None:
    if not isinstance(values, torch.Tensor):
        raise ValueError(f"{name} is a {type(values).__name__}; must be a tensor (rows,)")
    if values.ndim != 1:
        raise ValueError(f"{name} has shape {tuple(values.shape)}; must be (rows,)")
    if values.requires_grad:
        raise ValueError(f"{name} needs a gradient, which one entry a sequence does not get")
    if values.device != row.device:
        raise ValueError(f"{name} is on {values.device}; the row is on {row.device}")
    needed = len(row) if gathered else row.microbatch.last_index + 1
    if (len(values) != needed) if gathered else len(values) < needed:
        raise ValueError(f"{name} has {len(values)} rows; the micro-batch needs {needed}")
