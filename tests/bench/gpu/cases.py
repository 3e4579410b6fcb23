"""What is measured: each case does the same in several ways and knows whether it is right.

A case's tensors live as long as its calls; make one, measure it, and let go of it before the next.
"""

from __future__ import annotations

import dataclasses
from typing import Callable

import torch
from torch.nn import functional

import kernels_library as kernels
from kernels_library import Fields, TensorField
from meter import Call
from micro_batch import MicroBatch


@dataclasses.dataclass(frozen=True)
class Way:
    name: str
    call: Call
    # Raises if what `call` has left is wrong.
    check: Callable[[], None]


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    # Read and written.
    num_bytes: int
    ways: list[Way]


def expect_equal(actual: torch.Tensor, expected: torch.Tensor, what: str) -> None:
    if not torch.equal(actual, expected):
        wrong = int((actual != expected).sum())
        raise AssertionError(f"{what}: {wrong} of {actual.numel()} elements differ from PyTorch's")


def poisoned(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """No element is what it should be, so that one left out is seen."""
    tensor = torch.empty(shape, dtype=dtype, device=device)
    tensor.view(torch.uint8).fill_(0x5E)
    return tensor


def take(
    source: torch.Tensor,
    index: torch.Tensor,
    is_padding: torch.Tensor | None,
    pad: float,
    out: torch.Tensor,
) -> None:
    """Rows of `source` by an index: one launch, and one more if there is padding."""
    torch.index_select(source, 0, index, out=out)
    if is_padding is not None:
        out.masked_fill_(is_padding.view(-1, *[1] * (out.dim() - 1)), pad)


def pack_by_loop(batch: MicroBatch, sources: list[torch.Tensor]) -> list[torch.Tensor]:
    """Field by field and sequence by sequence, each length fetched from the device: as NeMo-RL and
    ROLL pack, for one context parallel rank or none. Sources are padded, [rows, longest]."""
    chunks = 2 * batch.context_parallel
    packed = []
    for source in sources:
        parts = []
        for sequence, row in enumerate(batch.host_order):
            length = batch.lengths[sequence].item()
            part = functional.pad(source[row, :length], (0, -length % batch.multiple))
            if batch.context_parallel > 1:
                part = part.view(chunks, -1)
                part = torch.cat([part[batch.rank], part[chunks - 1 - batch.rank]])
            parts.append(part)
        packed.append(torch.cat(parts))
    return packed


def unpack_by_loop(batch: MicroBatch, sources: list[torch.Tensor]) -> list[torch.Tensor]:
    """The inverse without context parallelism, to padded tensors in the order of the row."""
    unpacked = []
    for source in sources:
        parts = []
        for sequence in range(batch.count):
            begin = batch.cu_seqlens[sequence].item()
            end = batch.cu_seqlens[sequence + 1].item()
            parts.append(source[begin:end])
        unpacked.append(torch.nn.utils.rnn.pad_sequence(parts, batch_first=True))
    return unpacked


def unpadded_by_mask(
    mask: torch.Tensor, sources: list[torch.Tensor]
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """By an attention mask, rows in the order of the batch, the longest length fetched: as verl packs,
    with FlashAttention's unpad_input. Also the index that it went by."""
    lengths = mask.sum(dim=1, dtype=torch.int32)
    index = torch.nonzero(mask.flatten()).flatten()
    longest = int(lengths.max().item())
    functional.pad(torch.cumsum(lengths, dim=0, dtype=torch.int32), (1, 0))
    assert longest <= mask.shape[1]
    return index, [source.view(-1)[index] for source in sources]


def padded_by_index(
    index: torch.Tensor, shape: tuple[int, int], packed: list[torch.Tensor]
) -> list[torch.Tensor]:
    """The inverse of unpadded_by_mask, with pad_input."""
    padded = []
    for tensor in packed:
        rows = torch.zeros(shape[0] * shape[1], dtype=tensor.dtype, device=tensor.device)
        rows[index] = tensor
        padded.append(rows.view(shape))
    return padded


def rows_packed(
    library: kernels.Library, name: str, tokens: int, hidden: int, context_parallel: int = 1
) -> Case:
    """Hidden states from a ragged tensor. An odd `hidden` puts its first token off 16 bytes too."""
    batch = MicroBatch(library, tokens, context_parallel)
    aligned = hidden % 8 == 0
    source = torch.randn(tokens + 1, hidden, device=library.device, dtype=torch.bfloat16)
    source = source[:-1] if aligned else source[1:]
    index, is_padding = batch.source_index(ragged=True)
    ours = poisoned((batch.cells, hidden), source.dtype, library.device)
    theirs = poisoned((batch.cells, hidden), source.dtype, library.device)
    fields = Fields(TensorField(source, ours, hidden))

    def pack() -> None:
        library.pack(batch.row, batch.ragged_rows, fields)

    def by_index() -> None:
        take(source, index, is_padding, 0, theirs)

    def by_loop() -> torch.Tensor:
        parts = []
        for row in batch.host_order:
            begin, end = batch.offsets[row].item(), batch.offsets[row + 1].item()
            parts.append(source[begin:end])
        return torch.cat(parts)

    def check() -> None:
        pack()
        library.check_error_word()
        by_index()
        expect_equal(ours, theirs, name)

    ways = [Way("ours", pack, check), Way("index_select", by_index, check)]
    if context_parallel == 1:
        ways.append(
            Way("loop with .item()", by_loop, lambda: expect_equal(by_loop(), ours, f"{name}, loop"))
        )
    true_cells = batch.cells if is_padding is None else int((~is_padding).sum())
    return Case(name, (true_cells + batch.cells) * hidden * 2, ways)


def rows_unpacked(
    library: kernels.Library, name: str, tokens: int, hidden: int, context_parallel: int = 1
) -> Case:
    """Hidden states of all ranks back into a ragged tensor."""
    batch = MicroBatch(library, tokens, context_parallel, kernels.ALL_RANKS)
    source = torch.randn(batch.cells, hidden, device=library.device, dtype=torch.bfloat16)
    index, _ = batch.cell_index(ragged=True)
    ours = poisoned((tokens, hidden), source.dtype, library.device)
    theirs = poisoned((tokens, hidden), source.dtype, library.device)
    fields = Fields(TensorField(source, ours, hidden))

    def unpack() -> None:
        library.unpack(batch.row, batch.ragged_rows, fields)

    def by_index() -> None:
        take(source, index, None, 0, theirs)

    def check() -> None:
        unpack()
        library.check_error_word()
        by_index()
        expect_equal(ours, theirs, name)

    ways = [Way("ours", unpack, check), Way("index_select", by_index, check)]
    return Case(name, 2 * tokens * hidden * 2, ways)


# Tokens, labels, loss mask, log-probabilities, advantages, position ids.
FIELD_TYPES = [torch.int64, torch.int64, torch.uint8, torch.float32, torch.float32, torch.int32]
FIELD_BYTES = 29
LABELS = 1
POSITION_IDS = 5
LABEL_PAD = -100


class SixFields:
    """The per-token fields of a policy gradient step: padded sources and a packed destination."""

    def __init__(self, library: kernels.Library, batch: MicroBatch) -> None:
        self.library = library
        self.batch = batch
        shape = (batch.count, batch.longest)
        device = library.device
        self.sources = [torch.randint(0, 99, shape, device=device).to(t) for t in FIELD_TYPES]
        self.packed = [poisoned((batch.cells,), t, device) for t in FIELD_TYPES]
        described = [
            TensorField(source, packed, width=batch.longest)
            for source, packed in zip(self.sources, self.packed)
        ]
        described[LABELS] = dataclasses.replace(described[LABELS], shift=1, pad=LABEL_PAD)
        described[POSITION_IDS] = dataclasses.replace(
            described[POSITION_IDS], content=kernels.POSITION_IDS
        )
        self.fields = Fields(*described)

    def pack(self) -> None:
        self.library.pack(self.batch.row, self.batch.padded_rows, self.fields)

    def expected(self) -> list[torch.Tensor]:
        """By the index, with the labels shifted and the positions of the cells."""
        index, is_padding = self.batch.source_index(ragged=False)
        labels = self.batch.source_index(ragged=False, shift=1)
        taken = []
        for i, source in enumerate(self.sources):
            out = torch.empty_like(self.packed[i])
            chosen = (*labels, LABEL_PAD) if i == LABELS else (index, is_padding, 0)
            take(source.view(-1), *chosen, out)
            taken.append(out)
        taken[POSITION_IDS] = self.batch.cell_tokens()[1].to(taken[POSITION_IDS])
        return taken

    def check(self) -> None:
        self.pack()
        self.library.check_error_word()
        for i, (packed, expected) in enumerate(zip(self.packed, self.expected())):
            expect_equal(packed, expected, f"packed field {i}")


def fields_packed(
    library: kernels.Library, name: str, tokens: int, context_parallel: int = 1
) -> Case:
    batch = MicroBatch(library, tokens, context_parallel)
    six = SixFields(library, batch)
    index, is_padding = batch.source_index(ragged=False)
    label_index, label_padding = batch.source_index(ragged=False, shift=1)
    outs = [torch.empty_like(packed) for packed in six.packed]

    def by_index() -> None:
        for i, source in enumerate(six.sources):
            if i == LABELS:
                take(source.view(-1), label_index, label_padding, LABEL_PAD, outs[i])
            else:
                take(source.view(-1), index, is_padding, 0, outs[i])

    def by_loop() -> list[torch.Tensor]:
        return pack_by_loop(batch, six.sources)

    def check_others() -> None:
        six.check()
        by_index()
        looped = by_loop()
        # Positions come from a source there, and the loop does not shift the labels.
        for i in (0, 1, 2, 3, 4):
            expect_equal(outs[i], six.packed[i], f"{name}, index, field {i}")
        for i in (0, 2, 3, 4):
            expect_equal(looped[i], six.packed[i], f"{name}, loop, field {i}")

    ways = [
        Way("ours", six.pack, six.check),
        Way("index_select, field by field", by_index, check_others),
        Way("loop with .item()", by_loop, check_others),
    ]
    if context_parallel == 1:
        mask = batch.mask()

        def by_mask() -> tuple[torch.Tensor, list[torch.Tensor]]:
            return unpadded_by_mask(mask, six.sources)

        def check_mask() -> None:
            for source, packed in zip(six.sources, by_mask()[1]):
                expect_equal(packed, source[mask], f"{name}, by mask")

        ways.append(Way("unpad_input by a mask", by_mask, check_mask))
    return Case(name, 2 * batch.cells * FIELD_BYTES, ways)


def fields_unpacked(
    library: kernels.Library, name: str, tokens: int, context_parallel: int = 1
) -> Case:
    """Back to padded tensors, padding written too."""
    batch = MicroBatch(library, tokens, context_parallel, kernels.ALL_RANKS)
    device = library.device
    sources = [torch.randint(0, 99, (batch.cells,), device=device).to(t) for t in FIELD_TYPES]
    shape = (batch.count, batch.longest)
    ours = [poisoned(shape, t, device) for t in FIELD_TYPES]
    theirs = [poisoned(shape, t, device) for t in FIELD_TYPES]
    index, has_none = batch.cell_index(ragged=False)
    fields = Fields(
        *[TensorField(source, out, width=batch.longest) for source, out in zip(sources, ours)]
    )

    def unpack() -> None:
        library.unpack(batch.row, batch.padded_rows, fields)

    def by_index() -> None:
        for source, out in zip(sources, theirs):
            take(source, index, has_none, 0, out.view(-1))

    def by_loop() -> list[torch.Tensor]:
        return unpack_by_loop(batch, sources)

    def check() -> None:
        unpack()
        library.check_error_word()
        by_index()
        for i, (mine, other) in enumerate(zip(ours, theirs)):
            expect_equal(mine, other, f"{name}, field {i}")

    def check_loop() -> None:
        check()
        order = batch.order.to(torch.int64)
        for i, (mine, other) in enumerate(zip(ours, by_loop())):
            expect_equal(other, mine[order], f"{name}, loop, field {i}")

    ways = [Way("ours", unpack, check), Way("index_select, field by field", by_index, check)]
    if context_parallel == 1:
        ways.append(Way("loop and pad_sequence", by_loop, check_loop))
        mask = batch.mask()
        by_row, flat = unpadded_by_mask(mask, ours)

        def by_pad_input() -> list[torch.Tensor]:
            return padded_by_index(by_row, shape, flat)

        def check_pad_input() -> None:
            for packed, padded in zip(flat, by_pad_input()):
                expect_equal(padded[mask], packed, f"{name}, pad_input")

        ways.append(Way("pad_input by an index", by_pad_input, check_pad_input))
    return Case(name, (batch.tokens + batch.count * batch.longest) * FIELD_BYTES, ways)


def one_field_unpacked(library: kernels.Library, name: str, tokens: int) -> Case:
    """One float32 field to a padded tensor, which nested tensors do too."""
    batch = MicroBatch(library, tokens)
    source = torch.rand(batch.cells, device=library.device)
    ours = poisoned((batch.count, batch.longest), source.dtype, library.device)
    fields = Fields(TensorField(source, ours, width=batch.longest))
    if hasattr(torch.nested, "nested_tensor_from_jagged"):
        # Its kernel wants a last dimension.
        nested = torch.nested.nested_tensor_from_jagged(
            source.view(-1, 1),
            batch.cu_seqlens.to(torch.int64),
            min_seqlen=min(batch.host_lengths),
            max_seqlen=batch.longest,
        )
    else:
        ends = batch.cu_seqlens.tolist()
        nested = torch.nested.nested_tensor([source[a:b] for a, b in zip(ends, ends[1:])])

    def unpack() -> None:
        library.unpack(batch.row, batch.padded_rows, fields)

    def by_nested() -> torch.Tensor:
        return torch.nested.to_padded_tensor(nested, 0.0)

    def check() -> None:
        unpack()
        library.check_error_word()
        padded = by_nested().view(batch.count, batch.longest)
        expect_equal(padded, ours[batch.order.to(torch.int64)], name)

    ways = [Way("ours", unpack, check), Way("torch.nested.to_padded_tensor", by_nested, check)]
    return Case(name, (batch.tokens + batch.count * batch.longest) * 4, ways)


def summed(library: kernels.Library, name: str, tokens: int) -> Case:
    """The masked sum of each sequence and of the row."""
    batch = MicroBatch(library, tokens)
    device = library.device
    values = torch.rand(batch.cells, device=device)
    mask = (torch.rand(batch.cells, device=device) < 0.8).to(torch.uint8)
    sequence = batch.cell_tokens()[0].to(device)
    sums = poisoned((batch.count,), torch.float32, device)
    total = poisoned((1,), torch.float32, device)
    workspace = library.reduce_workspace(batch.count, batch.row_width)
    reduction = kernels.Reduction(
        values=values.data_ptr(), value_type=kernels.FLOAT32,
        weights=mask.data_ptr(), weight_type=kernels.UINT8,
        sums=sums.data_ptr(), sum_total=total.data_ptr(),
    )

    def reduce() -> None:
        library.reduce(batch.row, reduction, workspace)

    def by_index_add() -> tuple[torch.Tensor, torch.Tensor]:
        each = torch.zeros(batch.count, device=device).index_add_(0, sequence, values * mask)
        return each, each.sum()

    def check() -> None:
        reduce()
        library.check_error_word()
        exact = torch.zeros(batch.count, dtype=torch.float64)
        exact.index_add_(0, sequence.cpu(), values.cpu().double() * mask.cpu())
        torch.testing.assert_close(sums.cpu(), exact.float(), rtol=1e-6, atol=0)
        torch.testing.assert_close(total.cpu()[0], exact.sum().float(), rtol=1e-6, atol=0)
        each, _ = by_index_add()
        torch.testing.assert_close(each.cpu(), exact.float(), rtol=1e-3, atol=0)

    ways = [Way("ours", reduce, check), Way("index_add_, not deterministic", by_index_add, check)]
    return Case(name, batch.cells * 5, ways)


def laid_out_and_packed(library: kernels.Library, name: str, tokens: int) -> Case:
    """Lengths to packed fields: two calls, and as one CUDA graph over changing lengths."""
    batch = MicroBatch(library, tokens)
    six = SixFields(library, batch)

    def both() -> None:
        batch.compute_layout()
        six.pack()

    ways = [Way("ours, two calls", both, six.check)]
    if library.device.type == "cuda":
        graph = captured(both)

        def check_replay() -> None:
            whole = batch.lengths.clone()
            graph.replay()
            for packed, expected in zip(six.packed, six.expected()):
                expect_equal(packed, expected, f"{name}, replayed")
            batch.lengths.copy_(whole // 2)
            graph.replay()
            library.check_error_word()
            shorter = pack_by_loop(batch, six.sources)
            for i in (0, 2, 3, 4):
                tail = (0, batch.cells - shorter[i].numel())
                expected = functional.pad(shorter[i], tail)
                expect_equal(six.packed[i], expected, f"{name}, shorter, field {i}")
            batch.lengths.copy_(whole)

        ways.append(Way("ours, one graph replayed", graph.replay, check_replay))
    return Case(name, 2 * batch.cells * FIELD_BYTES, ways)


def captured(call: Call) -> torch.cuda.CUDAGraph:
    """`call` as a graph, after a run on a side stream: nothing may be loaded while capturing."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph
