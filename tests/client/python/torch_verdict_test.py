"""A nested tensor whose rows are too short is an error of its row alone: at once on the host, and of offsets that lie on
a device at the loss at the latest, without waiting for the device."""

import pytest

torch = pytest.importorskip("torch")

import batchplan
from batchplan.torch import PackedBatch, PackedLoss, PackedRow, _batch_field, _layout, _verdict, check, pack, sums, unpack
from devices import DEVICES, use_backend

LENGTHS = [3, 5, 2]
SHORT = r"ids\[1\] has 4 tokens; 5 are planned"


def microbatch_of(lengths=LENGTHS):
    (microbatch,) = batchplan.plan(lengths, max_tokens=16).rank(0)
    return microbatch


class Jagged(torch.Tensor):
    """What is asked of a nested tensor, for PyTorch of before there were jagged ones."""

    is_nested = True
    layout = None

    def values(self):
        return self.parts[0]

    def offsets(self):
        return self.parts[1]

    def lengths(self):
        return None


def nested(lengths, device="cpu", requires_grad=False):
    """Of rows 1., 1., ...; with the offsets on the device."""
    offsets = torch.tensor([0, *lengths], device=device).cumsum(0)
    values = torch.ones(sum(lengths), device=device, requires_grad=requires_grad)
    if hasattr(torch, "jagged"):
        return torch.nested.nested_tensor_from_jagged(values, offsets)
    made = torch.Tensor._make_subclass(Jagged, torch.empty(0))
    made.parts = values, offsets
    return made


class FakeReading:
    """As of a device that is as far as the test says."""

    def __init__(self, tensors, made):
        self.copies = [one.clone() for one in tensors]
        self.arrived, self.waits = False, 0
        made.append(self)

    def is_there(self):
        return self.arrived

    def get(self):
        self.waits += not self.arrived
        self.arrived = True
        return self.copies


@pytest.fixture
def readings(monkeypatch):
    """Host memory is a device of which the host knows nothing until it is told; the readings that were made."""
    use_backend(monkeypatch, "torch")
    made = []
    for module in (_batch_field, _layout):
        monkeypatch.setattr(module, "is_on_host", lambda device: False)
    monkeypatch.setattr(_verdict, "reading_of", lambda tensors: FakeReading(tensors, made))
    monkeypatch.setattr(_verdict, "_asked", {})
    _verdict.verdict_of_lost_rows.cache_clear()
    yield made
    _verdict.verdict_of_lost_rows.cache_clear()


@pytest.mark.parametrize("backend", ["kernels", "torch"])
@pytest.mark.parametrize("gathered", [False, True])
def test_the_host_raises_it_at_once(monkeypatch, backend, gathered):
    use_backend(monkeypatch, backend)
    microbatch = microbatch_of()
    lengths = [LENGTHS[index] for index in microbatch.indices] if gathered else LENGTHS
    row = PackedRow(microbatch)
    short = [4 if length == 5 else length for length in lengths]
    with pytest.raises(ValueError, match=rf"ids\[{lengths.index(5)}\] has 4 tokens; 5 are planned"):
        PackedBatch(row, {"ids": nested(short)}, gathered=gathered)
    assert PackedBatch(row, {"ids": nested(lengths)}, gathered=gathered)["ids"].tolist() == [1] * 10


@pytest.mark.parametrize("backend", ["kernels", "torch"])
def test_offsets_beyond_the_values_are_an_error(monkeypatch, backend):
    use_backend(monkeypatch, backend)
    made = torch.Tensor._make_subclass(Jagged, torch.empty(0))
    for offsets, message in [
        ([0, 3, 8, 11], r"ids\[2\] is tokens 8 to 11; there are 10"),
        ([-1, 3, 8, 10], r"ids\[0\] is tokens -1 to 3; there are 10"),
        ([0, 3, 2, 10], r"ids\[1\] has -1 tokens; 5 are planned"),
    ]:
        made.parts = torch.ones(10), torch.tensor(offsets)
        with pytest.raises(ValueError, match=message):
            PackedBatch(microbatch_of(), {"ids": made})


def test_a_bad_tensor_packs_padding_and_touches_no_other_row(readings):
    microbatch = microbatch_of()
    row = PackedRow(microbatch)
    batch = PackedBatch(
        row,
        {"ids": nested([3, 4, 2]), "padded": torch.ones(3, 5)},
        per_sequence={"one": torch.ones(3)},
        pad_values={"ids": -7, "padded": -8, "one": -9},
    )
    assert [set(batch[name].tolist()) for name in batch] == [{-7}, {-8}, {-9}]
    assert set(batch.position_ids.tolist()) == {0} and set(batch.sequence_ids.tolist()) == {-1}
    assert batch.unpack(torch.ones(10), pad_value=-6).unique().tolist() == [-6]
    other = PackedBatch(microbatch, {"ids": nested(LENGTHS)})
    assert other["ids"].tolist() == [1] * 10
    for reading in readings:
        reading.arrived = True
    for use in (
        lambda: pack(row, torch.ones(3, 5)),
        lambda: unpack(row, torch.ones(10)),
        lambda: sums(row, torch.ones(10)),
        lambda: PackedBatch(row, {"padded": torch.ones(3, 5)}),
        lambda: PackedLoss(lambda output, fields: output.sum())(batch, torch.ones(10)),
    ):
        with pytest.raises(ValueError, match=SHORT):
            use()
    PackedLoss(lambda output, fields: output.sum())(other, torch.ones(10))


def test_no_use_but_the_loss_waits(readings):
    row = PackedRow(microbatch_of())
    batch = PackedBatch(row, {"ids": nested(LENGTHS)})
    pack(row, torch.ones(3, 5))
    batch.unpack(torch.ones(10))
    assert [reading.waits for reading in readings] == [0]
    PackedLoss(lambda output, fields: output.sum())(batch, torch.ones(10))
    assert [reading.waits for reading in readings] == [1]
    # And once alone.
    sums(row, torch.ones(10))
    assert [reading.waits for reading in readings] == [1]


def test_nothing_is_asked_where_nothing_can_be_wrong(readings):
    row = PackedRow(microbatch_of())
    batch = PackedBatch(row, {"ids": torch.ones(3, 5), "list": [torch.ones(length) for length in LENGTHS]})
    batch.sums(batch["ids"])
    assert not readings


@pytest.mark.parametrize("loss", [
    lambda batch: PackedLoss(lambda output, fields: output.sum())(batch, batch["ids"]),
    lambda batch: batch.sums(batch["ids"]),
    lambda batch: sums(batch.row, batch["ids"]),
])
def test_the_loss_raises_it_at_the_latest(readings, loss):
    batch = PackedBatch(microbatch_of(), {"ids": nested([3, 4, 2])})
    with pytest.raises(ValueError, match=SHORT):
        loss(batch)
    assert [reading.waits for reading in readings] == [1]


def test_the_gradient_raises_it_too(readings):
    batch = PackedBatch(microbatch_of(), {"ids": nested([3, 4, 2], requires_grad=True)})
    readings[0].arrived = True
    with pytest.raises(ValueError, match=SHORT):
        batch["ids"].sum().backward()


def test_the_first_of_several_fields_is_named(readings):
    row = PackedRow(microbatch_of())
    PackedBatch(row, {"good": nested(LENGTHS), "bad": nested([3, 5, 1]), "worse": nested([0, 0, 0])})
    with pytest.raises(ValueError, match=r"bad\[2\] has 1 tokens; 2 are planned"):
        sums(row, torch.ones(10))


@pytest.mark.parametrize("lose", [
    lambda: pack(microbatch_of(), nested([3, 4, 2])),
    lambda: PackedBatch(microbatch_of(), {"sequences": nested([3, 4, 2])}),
])
def test_of_a_row_that_is_gone_the_next_use_on_the_device_raises_it_once(readings, lose):
    lose()
    row = PackedRow(microbatch_of())
    pack(row, torch.ones(3, 5))
    readings[0].arrived = True
    with pytest.raises(ValueError, match=r"sequences\[1\] has 4 tokens; 5 are planned"):
        pack(row, torch.ones(3, 5))
    assert pack(row, torch.ones(3, 5)).tolist() == [1] * 10
    lose()
    with pytest.raises(ValueError, match=r"sequences\[1\] has 4 tokens; 5 are planned"):
        sums(row, torch.ones(10))


def test_check_waits_and_raises_each_error_once(readings):
    microbatch = microbatch_of()
    rows = [PackedRow(microbatch) for _ in range(3)]
    for row, lengths in zip(rows, ([3, 4, 2], LENGTHS, [2, 5, 2])):
        PackedBatch(row, {"ids": nested(lengths)})
    pack(microbatch, nested([3, 5, 1]))
    found = []
    for _ in range(3):
        with pytest.raises(ValueError) as raised:
            check("cpu")
        found.append(str(raised.value))
    assert sorted(found) == [
        "ids[0] has 2 tokens; 3 are planned",
        "ids[1] has 4 tokens; 5 are planned",
        "sequences[2] has 1 tokens; 2 are planned",
    ]
    check("cpu")


def test_what_a_graph_captures_only_a_check_reads(readings, monkeypatch):
    row = PackedRow(microbatch_of())
    capturing = [True]
    monkeypatch.setattr(_verdict, "is_capturing", lambda device: capturing[0])
    bad = nested([3, 4, 2])
    PackedBatch(row, {"ids": bad})
    sums(row, torch.ones(10))
    capturing[0] = False
    sums(row, torch.ones(10))
    assert not readings
    for _ in range(2):
        with pytest.raises(ValueError, match=SHORT):
            check("cpu")
        assert int(row.error_word) == 0
        check("cpu")
        # As a replay would find it, and what the graph copies.
        (captured,) = row.verdict._captured
        for word in (row.error_word, captured[1][0]):
            word.fill_(18)


def test_a_check_goes_on_behind_an_error_that_stays(readings, monkeypatch):
    rows = [PackedRow(microbatch_of()) for _ in range(3)]
    PackedBatch(rows[0], {"ids": nested([3, 4, 2])})
    monkeypatch.setattr(_verdict, "is_capturing", lambda device: True)
    PackedBatch(rows[0], {"ids": nested(LENGTHS)})
    monkeypatch.setattr(_verdict, "is_capturing", lambda device: False)
    for row in rows[1:]:
        PackedBatch(row, {"ids": nested([3, 4, 2])})
    told = 0
    for _ in range(6):
        try:
            check("cpu")
        except ValueError:
            told += 1
    # One a row; and what the graph's launch found of the row that was spoilt by then.
    assert told == 4
    for row in rows:
        with pytest.raises(ValueError, match=SHORT):
            sums(row, torch.ones(10))


@pytest.fixture
def late(readings, monkeypatch):
    """A device whose events are not known."""
    monkeypatch.setattr(_verdict, "reading_of", _verdict._LateReading)


def test_late_readings_blame_no_field_for_another(late):
    row = PackedRow(microbatch_of())
    PackedBatch(row, {"good": nested(LENGTHS), "bad": nested([3, 5, 1])})
    with pytest.raises(ValueError, match=r"bad\[2\] has 1 tokens; 2 are planned"):
        sums(row, torch.ones(10))


def test_late_readings_do_not_gather_for_ever(late):
    row = PackedRow(microbatch_of())
    for _ in range(200):
        pack(row, nested(LENGTHS))
        pack(microbatch_of(), nested(LENGTHS))
    assert len(row.verdict._pending) <= 66
    assert len(_verdict.verdict_of_lost_rows(torch.device("cpu"))._pending) <= 66


def test_no_question_is_put_to_an_event_during_a_capture(readings, monkeypatch):
    row = PackedRow(microbatch_of())
    PackedBatch(row, {"ids": nested([3, 4, 2])})
    readings[0].is_there = readings[0].get = None
    monkeypatch.setattr(_verdict, "is_capturing", lambda device: True)
    sums(row, torch.ones(10))


def test_what_offsets_do_not_explain_is_told_as_the_kernels_do(readings):
    row = PackedRow(microbatch_of())
    row.error_word.fill_(16)
    PackedBatch(row, {"ids": nested(LENGTHS)})
    for _ in range(2):
        with pytest.raises(ValueError, match="ids: cu_seqlens and cu_seqlens_padded are not a layout of the row"):
            sums(row, torch.ones(10))


@pytest.mark.skipif(len(DEVICES) < 2 or not hasattr(torch, "jagged"), reason="needs a GPU and jagged tensors")
@pytest.mark.parametrize("backend", ["kernels", "torch"])
def test_on_a_gpu(monkeypatch, backend):
    use_backend(monkeypatch, backend)
    microbatch = microbatch_of()
    row = PackedRow(microbatch, device="cuda")
    packed = pack(row, nested([3, 4, 2], "cuda"), pad_value=-7)
    # The launch that finds it may have packed what is there.
    assert set(packed.tolist()) <= {1, -7}
    for _ in range(2):
        with pytest.raises(ValueError, match=SHORT.replace("ids", "sequences")):
            sums(row, torch.ones(10, device="cuda"))
    with pytest.raises(ValueError, match=SHORT.replace("ids", "sequences")):
        check("cuda")
    check("cuda")

    # A device that has nothing else to do is done before the batch is.
    with pytest.raises(ValueError, match=SHORT):
        batch = PackedBatch(microbatch, {"ids": nested([3, 4, 2], "cuda")})
        PackedLoss(lambda output, fields: output.sum())(batch, batch["ids"])
    assert PackedBatch(microbatch, {"ids": nested(LENGTHS, "cuda")})["ids"].tolist() == [1] * 10
