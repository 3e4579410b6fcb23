"""The fields of a micro-batch's sequences, each whole, where the row has shared prefixes once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from batchplan._micro_batch import MicroBatch
from batchplan.torch._batch_field import BatchField


class WholeSequences:
    """Reads what PackedBatch was given: two sequences may have other values for a token that they share."""

    def __init__(
        self,
        microbatch: MicroBatch,
        fields: Sequence[BatchField],
        per_sequence: Mapping[str, torch.Tensor],
        gathered: bool,
    ) -> None:
        self._microbatch = microbatch
        self._fields = {field.name: field for field in fields}
        self._per_sequence = dict(per_sequence)
        self._gathered = gathered

    def __contains__(self, name: str) -> bool:
        return name in self._fields or name in self._per_sequence

    def alone(self) -> list[dict[str, torch.Tensor]]:
        """Of each sequence its fields, [tokens, ...]; what it has one entry of, for each of its tokens. Views."""
        lengths = self._microbatch.lengths.tolist()
        by_name = {name: self._of_field(field) for name, field in self._fields.items()}
        for name, values in self._per_sequence.items():
            by_name[name] = [
                values[row].expand(length) for row, length in zip(self._rows(self._gathered), lengths)
            ]
        return [{name: rows[place] for name, rows in by_name.items()} for place in range(len(lengths))]

    def padded(self, pad_values: Mapping[str, float]) -> dict[str, torch.Tensor]:
        """The fields of all sequences, [n, longest, ...]."""
        sequences = self.alone()
        return {
            name: torch.nn.utils.rnn.pad_sequence(
                [fields[name] for fields in sequences], batch_first=True, padding_value=pad_values.get(name, 0)
            )
            for name in (*self._fields, *self._per_sequence)
        }

    def check_equal(self, name: str, unpacked: torch.Tensor) -> None:
        """
        Args:
            unpacked: the field as the row has it, [n, longest, ...].

        Raises:
            ValueError: a sequence has another token.
        """
        for place, own in enumerate(self._of_field(self._fields[name])):
            laid = unpacked[place, : len(own)]
            differs = (own != laid).flatten(1).any(1) if own.ndim > 1 else own != laid
            if bool(differs.any()):
                token = int(differs.nonzero()[0])
                found, other = (one[token].tolist() for one in (own, laid))
                raise ValueError(
                    f"{name} of sequence {int(self._microbatch.indices[place])} has {found} at token {token}, and the "
                    f"sequence that it shares its first {int(self._shared[place])} tokens with has {other}"
                )

    @property
    def _shared(self) -> Sequence[int]:
        assert self._microbatch.shared_tokens is not None
        return self._microbatch.shared_tokens.tolist()

    def _rows(self, gathered: bool) -> list[int]:
        return list(range(len(self._microbatch))) if gathered else self._microbatch.indices.tolist()

    def _of_field(self, field: BatchField) -> list[torch.Tensor]:
        begins = [0] * field.num_rows if field.offsets is None else field.offsets.tolist()
        return [
            field.values[row, :length] if field.offsets is None else field.values[begins[row] : begins[row] + length]
            for row, length in zip(self._rows(field.gathered), self._microbatch.lengths.tolist())
        ]
