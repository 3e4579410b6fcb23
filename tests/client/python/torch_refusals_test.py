"""What pack, unpack, sums and PackedBatch refuse, by field, value and limit."""

import dataclasses

import numpy
import pytest

torch = pytest.importorskip("torch")

import batchplan
from batchplan.torch import PackedBatch, PackedRow, check, pack, sums, unpack
from devices import device  # noqa: F401


def test_refuses_what_does_not_fit(device):
    lengths = [3, 5]
    (microbatch,) = batchplan.plan(lengths, max_tokens=16).rank(0)
    good = torch.ones(2, 5, device=device)
    for sequences, message in [
        (good[:1], r"sequences has 1 rows; the micro-batch has sequence 1"),
        (good[:, :4], r"sequences\[1\] has 4 tokens; 5 are planned"),
        ([good[0, :3], good[1, :4]], r"sequences\[1\] has 4 tokens; 5 are planned"),
        (good[0], r"must be \(rows, tokens, \.\.\.\)"),
        ([], "sequences is an empty list"),
    ]:
        with pytest.raises(ValueError, match=message):
            pack(microbatch, sequences)
    with pytest.raises(ValueError, match="3 rows; the micro-batch has 2 sequences"):
        pack(microbatch, torch.ones(3, 5, device=device), gathered=True)
    row = pack(microbatch, good)
    with pytest.raises(ValueError, match="its first dimension must be 8 tokens"):
        unpack(microbatch, row[1:])
    with pytest.raises(ValueError, match="width is 4; the longest sequence has 5 tokens"):
        unpack(microbatch, row, width=4)
    with pytest.raises(ValueError, match="num_rows is 1; the micro-batch has sequence 1"):
        unpack(microbatch, row, num_rows=1)
    with pytest.raises(ValueError, match="length_multiple is 1; cp=2 needs a multiple of 4"):
        PackedRow(microbatch, cp=2)
    with pytest.raises(ValueError, match="cp_rank is 1; must be 0 to 0"):
        PackedRow(microbatch, cp_rank=1)
    with pytest.raises(ValueError, match="'labels' is none of the fields"):
        PackedBatch(microbatch, {"ids": good}, pad_values={"labels": -100})
    with pytest.raises(ValueError, match="advantages has 1 rows; the micro-batch needs 2"):
        PackedBatch(microbatch, {}, per_sequence={"advantages": torch.ones(1)})
    with pytest.raises(ValueError, match="'ids' is none of the fields, or one of both kinds"):
        PackedBatch(microbatch, {"ids": good}, per_sequence={"ids": torch.ones(2)})
    with pytest.raises(ValueError, match="cp, cp_rank and zigzag are those of the row"):
        PackedBatch(PackedRow(microbatch, device=device), {"ids": good}, cp=2)
    for shift in (0.5, 2**31):
        with pytest.raises(ValueError, match=f"shift of sequences is {shift}; must be a whole number"):
            pack(microbatch, good, shift=shift)
    with pytest.raises(ValueError, match="values has dtype torch.int16; must be one of float32"):
        sums(microbatch, row.to(torch.int16))
    check(device)


@pytest.mark.parametrize("sequences, message", [
    (numpy.ones((2, 5)), "sequences is a ndarray; must be a tensor, or a list of them"),
    ([numpy.ones(3), numpy.ones(5)], r"sequences\[0\] is no tensor"),
    (None, "sequences is a NoneType"),
    ([torch.ones(3), torch.ones(5, 2)], r"sequences\[1\] is torch.float32 of \(5, 2\)"),
    ([torch.ones(3), torch.ones(5, dtype=torch.int64)], r"sequences\[1\] is torch.int64"),
])
def test_refuses_what_is_no_sequences(sequences, message):
    (microbatch,) = batchplan.plan([3, 5], max_tokens=16).rank(0)
    with pytest.raises(ValueError, match=message):
        pack(microbatch, sequences)
    with pytest.raises(ValueError, match=message.replace("sequences", "ids")):
        PackedBatch(microbatch, {"ids": sequences})


def test_refuses_arguments_of_another_type():
    plan = batchplan.plan([3, 5], max_tokens=16)
    (microbatch,) = plan.rank(0)
    for refused, message in [
        (lambda: PackedRow(plan), "microbatch is a Plan; must be one of those of plan.rank"),
        (lambda: PackedRow(microbatch, cp_rank=0.5), "cp_rank is 0.5; must be a whole number"),
        (lambda: sums(microbatch, numpy.ones(8)), "values is a ndarray; must be a tensor"),
        (lambda: unpack(microbatch, torch.ones(8), width=6.0), "width is 6.0; must be a whole number"),
        (lambda: PackedBatch(microbatch, [torch.ones(2, 5)]), "fields is a list; must be tensors by name"),
        (lambda: PackedBatch(microbatch, {}, per_sequence={"a": [1.0, 2.0]}), "a is a list"),
    ]:
        with pytest.raises(ValueError, match=message):
            refused()


@pytest.mark.parametrize("cp, changed, message", [
    (1, {"indices": [0, 2, 0]}, "the micro-batch has sequence 0 2 times; it must be there once"),
    (1, {"width": 15}, "the micro-batch's row has 15 tokens; its sequences take 16"),
    (2, {"width": 18}, "the micro-batch's row is 18 tokens wide; cp=2 needs a multiple of 4"),
])
def test_refuses_a_microbatch_whose_parts_do_not_fit(device, cp, changed, message):
    (microbatch,) = batchplan.plan([3, 5, 2], max_tokens=16, cp=2).rank(0)
    if "indices" in changed:
        changed = {"indices": numpy.array(changed["indices"], numpy.uint32)}
    with pytest.raises(ValueError, match=message):
        PackedRow(dataclasses.replace(microbatch, **changed), device=device, cp=cp)


@pytest.mark.parametrize("dtype, pad_value, fits", [
    (torch.uint8, -1, False),
    (torch.uint8, 255, True),
    (torch.int64, 0.5, False),
    (torch.int64, 10**400, False),
    (torch.float32, 10**400, False),
    (torch.int64, float("nan"), False),
    (torch.int64, -100.0, True),
    (torch.bool, 2, False),
    (torch.float16, 1e6, False),
    (torch.float16, float("-inf"), True),
    (torch.float32, 1j, False),
    (torch.complex64, 1j, True),
    (torch.float32, "0", False),
    (torch.float32, torch.tensor(3), True),
])
def test_padding_is_of_the_fields_dtype(device, dtype, pad_value, fits):
    (microbatch,) = batchplan.plan([3], passes=[batchplan.Pass(8, length_multiple=4)]).rank(0)
    values = torch.ones(1, 3, dtype=dtype, device=device)
    if fits:
        assert pack(microbatch, values, pad_value=pad_value)[3].item() == pad_value
        assert unpack(microbatch, values.new_ones(4), width=4, pad_value=pad_value)[0, 3].item() == pad_value
        return
    for refused in (
        lambda: pack(microbatch, values, pad_value=pad_value),
        lambda: unpack(microbatch, values.new_ones(4), pad_value=pad_value),
        lambda: PackedBatch(microbatch, {}, per_sequence={"sequences": values[:, 0]},
                            pad_values={"sequences": pad_value}),
    ):
        with pytest.raises(ValueError, match=f"pad_value of (sequences|packed) is .*, which is no {dtype}"):
            refused()
