"""calibrate: costs of a step whose time is known, by a clock that is its own."""

import collections
import dataclasses
import subprocess
import sys

import pytest
from processes import free_port

torch = pytest.importorskip("torch")

import batchplan
from batchplan.torch import _calibrate, calibrate

COST = batchplan.CostModel(0.01, 2e-6, 12.0, per_sequence=0.4)
BUDGET = 4096


class Device:
    """Its clock moves by what a step costs, in milliseconds, and by nothing else."""

    def __init__(self, monkeypatch, cost=COST, late=lambda run: 0.0):
        self.cost, self.late = cost, late
        self.seconds = 0.0
        self.batches = []
        self.runs = collections.Counter()
        monkeypatch.setattr(_calibrate, "perf_counter", lambda: self.seconds)

    def step(self, packed):
        lengths = packed.row.microbatch.lengths.tolist()
        self.batches.append(packed)
        self.runs[tuple(lengths)] += 1
        milliseconds = self.cost.per_microbatch + self.late(self.runs[tuple(lengths)])
        for length in lengths:
            milliseconds += self.cost.per_sequence
            milliseconds += self.cost.per_token * length + self.cost.per_token_squared * length**2
        self.seconds += milliseconds / 1000


def assert_alike(cost, expected, share=1e-6):
    for name, value in expected.to_dict().items():
        assert getattr(cost, name) == pytest.approx(value, rel=share, abs=1e-9), name


def test_the_costs_of_a_step_are_found(monkeypatch):
    calibration = calibrate(Device(monkeypatch).step, BUDGET, vocabulary=100)
    assert_alike(calibration.cost, COST)
    assert calibration.error < 1e-6
    plan = batchplan.plan([100, 2000, 30, 700], dp=2, max_tokens=BUDGET, cost=calibration.cost)
    assert plan.metrics.predicted_step_time > 2 * COST.per_sequence + COST.per_microbatch


# Half of the model's layers, on one of four ranks that share a micro-batch's tokens.
def test_costs_of_a_part_on_a_group_are_those_of_the_whole_model_on_one_rank(monkeypatch):
    device = Device(monkeypatch, batchplan.CostModel(
        COST.per_token / 8, COST.per_token_squared / 8, COST.per_microbatch / 2, per_sequence=COST.per_sequence / 2))
    calibration = calibrate(device.step, BUDGET, vocabulary=100, cp=4, cp_rank=3, model_share=0.5)
    assert_alike(calibration.cost, COST)
    for packed in device.batches:
        assert (packed.row.cp, packed.row.cp_rank) == (4, 3)
        assert (packed.row.microbatch.lengths % 8 == 0).all()
        assert len(packed["input_ids"]) == packed.row.microbatch.width // 4


def test_timings_of_several_sizes_tell_what_their_ranks_exchange(monkeypatch):
    exchanged, timings = {2: 0.001, 4: 0.003, 8: 0.003}, []
    for cp in (1, 2, 4, 8):
        per_token = (COST.per_token + exchanged.get(cp, 0) * (cp - 1)) / cp
        device = Device(monkeypatch, dataclasses.replace(
            COST, per_token=per_token, per_token_squared=COST.per_token_squared / cp))
        timings += calibrate(device.step, BUDGET, vocabulary=100, cp=cp).timings
    fit = batchplan.fit_costs(timings)
    assert_alike(fit.cost, COST)
    assert fit.context_sizes == (1, 2, 4, 8)
    assert [size for size, _ in fit.cost.exchange] == [2, 4, 0]
    assert [token for _, token in fit.cost.exchange] == pytest.approx([0.001, 0.003, 0.003])


@pytest.mark.parametrize("cost", [
    batchplan.CostModel(0.01),
    batchplan.CostModel(0.01, 2e-6),
    batchplan.CostModel(0.01, 2e-6, 30),
    batchplan.CostModel(0.01, per_sequence=1),
])
def test_what_costs_nothing_is_found_to_cost_nothing(monkeypatch, cost):
    assert_alike(calibrate(Device(monkeypatch, cost).step, BUDGET, vocabulary=100).cost, cost)


def test_what_only_adds_to_a_run_does_not_count(monkeypatch):
    # A kernel is compiled, and all repeats but one wait for somebody else.
    device = Device(monkeypatch, late=lambda run: 0.0 if run == 4 else 5000.0)
    calibration = calibrate(device.step, BUDGET, vocabulary=100, repeats=5)
    assert_alike(calibration.cost, COST)
    assert set(device.runs.values()) == {6}


def test_microbatches_are_within_the_budget_and_of_many_kinds(monkeypatch):
    device = Device(monkeypatch)
    calibrate(device.step, BUDGET, vocabulary=7, shortest=40, longest=3000, length_multiple=16, repeats=1)
    kinds = {(len(packed.row), packed.row.max_seqlen) for packed in device.batches}
    assert len(kinds) >= 12 and len(device.batches) == 2 * len(kinds)
    assert {length for _, length in kinds} >= {48, 2992}
    assert all(length % 16 == 0 and count * length <= BUDGET for count, length in kinds)
    assert min(count * length for count, length in kinds) < BUDGET / 8
    for packed in device.batches:
        assert packed["input_ids"].view(len(packed.row), -1).shape[1] == packed.row.max_seqlen
        assert 0 <= packed["input_ids"].min() and packed["input_ids"].max() < 7


def test_timings_are_what_a_server_can_be_told(monkeypatch):
    calibration = calibrate(Device(monkeypatch).step, BUDGET, vocabulary=100)
    assert calibration.timings[0].tokens == BUDGET
    assert all(one.tokens**2 == one.tokens_squared * one.sequences for one in calibration.timings)
    assert batchplan.fit_costs(calibration.timings).cost == calibration.cost


@pytest.mark.parametrize("arguments, message", [
    ({"max_tokens": 0}, "max_tokens is 0; must be at least 1"),
    ({"vocabulary": 0}, "vocabulary is 0; must be at least 1"),
    ({"repeats": 0}, "repeats is 0; must be at least 1"),
    ({"cp": 0}, "cp is 0; must be at least 1"),
    ({"cp": 2, "cp_rank": 2}, "cp_rank is 2; "),
    ({"model_share": 0}, "model_share is 0.0; must be above 0 and at most 1"),
    ({"model_share": 1.5}, "model_share is 1.5; must be above 0 and at most 1"),
    ({"shortest": -1}, "shortest is -1; must be at least 1"),
    ({"longest": BUDGET + 1}, "longest is 4097; must be at most max_tokens, 4096"),
    ({"length_multiple": 5000}, "length_multiple is 5000; must be at most max_tokens, 4096"),
    ({"max_tokens": "4096"}, 'max_tokens is "4096"; must be a whole number'),
])
def test_wrong_arguments_are_named(monkeypatch, arguments, message):
    device = Device(monkeypatch)
    with pytest.raises(ValueError, match=message):
        calibrate(device.step, **{"max_tokens": BUDGET, "vocabulary": 100, **arguments})
    assert not device.batches


def test_a_budget_of_one_token_still_has_a_cost(monkeypatch):
    calibration = calibrate(Device(monkeypatch).step, 1, vocabulary=2)
    assert calibration.cost.per_token == pytest.approx(12.410002)


def test_a_step_that_does_nothing_is_refused(monkeypatch):
    Device(monkeypatch)
    with pytest.raises(batchplan.InvalidRequest, match=r"microbatches\[0\].milliseconds is 0"):
        calibrate(lambda packed: None, BUDGET, vocabulary=100)


WORKER = """
import sys
import batchplan
from torch import distributed
from batchplan.torch import _calibrate, calibrate

rank, idle = int(sys.argv[1]), int(sys.argv[3])
seconds = 0.0

def step(packed):
    global seconds
    if rank != idle:
        seconds += (1 + rank) * packed.row.width / 1e5

_calibrate.perf_counter = lambda: seconds
distributed.init_process_group("gloo", init_method=sys.argv[2], rank=rank, world_size=2)
groups = [distributed.new_group([one]) for one in range(2)]
for group in (None, groups[rank]):
    try:
        print(round(calibrate(step, 4096, vocabulary=9, device="cpu", group=group).cost.per_token, 6))
    except batchplan.InvalidRequest as error:
        print(error.field)
distributed.destroy_process_group()
"""


# The idle rank's step does nothing, to which no costs can be fitted.
@pytest.mark.parametrize("idle, expected", [
    (-1, [["0.01", "0.01"], ["0.01", "0.02"]]),
    (0, [["microbatches[0].milliseconds"] * 2, ["microbatches[0].milliseconds", "0.02"]]),
    (1, [["0.01", "0.01"], ["0.01", "microbatches[0].milliseconds"]]),
])
def test_all_ranks_have_the_costs_of_their_groups_first_or_its_error(idle, expected):
    address = f"tcp://127.0.0.1:{free_port()}"
    ranks = [
        subprocess.Popen([sys.executable, "-c", WORKER, str(rank), address, str(idle)], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    try:
        assert [rank.communicate(timeout=180)[0].split() for rank in ranks] == expected
    finally:
        for rank in ranks:
            rank.kill()
