"""batchplan.integrations.nemo_rl: the packer and its metrics, and its place in a NeMo-RL of stand-ins."""

import abc
import enum
import sys
import types

import batchplan
import numpy
import pytest
from batchplan.integrations import nemo_rl
from lengths import assert_each_once, lockstep, long_tailed

ALGORITHMS = [
    "concatenative", "first_fit_decreasing", "first_fit_shuffle", "modified_first_fit_decreasing", "balanced"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("seed", range(5))
def test_bins_hold_every_sequence_within_their_capacity(algorithm, seed):
    lengths = long_tailed(300, seed)
    packer = nemo_rl.get_packer(algorithm, 4096, min_bin_count=8, bin_count_multiple=8)
    bins = packer.pack(lengths)
    assert_each_once(bins, 300)
    assert max(sum(lengths[i] for i in one) for one in bins) <= 4096
    assert len(bins) % 8 == 0 and len(bins) >= 8
    assert packer.pack(lengths) == bins


def test_ranks_get_alike_bins_when_they_are_dealt():
    lengths = long_tailed(512, 1)
    bins = nemo_rl.get_packer("balanced", 4096, bin_count_multiple=8).pack(lengths)
    of_slots = [bins[slot : slot + 8] for slot in range(0, len(bins), 8)]
    even = sum(lockstep(lengths, [[one]]) for one in bins) / 8
    assert lockstep(lengths, of_slots) < 1.03 * even


def test_costs_and_the_rest_reach_the_plan():
    lengths = long_tailed(256, 2)
    squares = batchplan.CostModel(0.0, 1.0)

    def longest_slots(**options):
        bins = nemo_rl.get_packer("balanced", 4096, bin_count_multiple=4, **options).pack(lengths)
        work = [sum(lengths[i] ** 2 for i in one) for one in bins]
        return sum(max(work[slot : slot + 4]) for slot in range(0, len(work), 4))

    assert longest_slots(cost=squares) < longest_slots(cost=batchplan.CostModel(1.0))
    for wrong in ({"cost": 3.0}, {"effort": "much"}, {"synchronization": "never"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            nemo_rl.get_packer("balanced", 8, **wrong)


def test_numbers_of_bins():
    # What NeMo-RL's own bin-count fix makes [[5], [4, 3, 2], [0], [1]] of, for 4.
    assert len(nemo_rl.SequencePacker(10, min_bin_count=3).pack([2, 2, 2, 2, 2, 9])) == 3
    assert len(nemo_rl.SequencePacker(10, min_bin_count=0).pack([2, 2])) == 1
    assert len(nemo_rl.SequencePacker(10, min_bin_count=3, bin_count_multiple=2).pack([2] * 9)) == 4
    packer = nemo_rl.SequencePacker(10, min_bin_count=3, bin_count_multiple=2)
    assert (packer.bin_capacity, packer.min_bin_count, packer.bin_count_multiple) == (10, 3, 2)
    plain = nemo_rl.SequencePacker(10)
    assert (plain.collect_metrics, plain.min_bin_count, plain.bin_count_multiple) == (False, None, None)


def test_without_sequences_there_are_no_bins():
    for empty in ([], numpy.array([], dtype=numpy.int64)):
        assert nemo_rl.SequencePacker(8, True, bin_count_multiple=4).pack(empty) == []
    with pytest.raises(ValueError, match="Cannot create 1 bins with only 0 sequences"):
        nemo_rl.SequencePacker(8, min_bin_count=1).pack([])


def test_what_can_not_be_packed_is_named():
    with pytest.raises(ValueError, match=r"lengths\[1\] .*is 9, but .* is 8"):
        nemo_rl.SequencePacker(8).pack([2, 9])
    with pytest.raises(batchplan.InvalidRequest, match="Cannot create 4 bins with only 2 sequences") as raised:
        nemo_rl.SequencePacker(10, min_bin_count=3, bin_count_multiple=2).pack([2, 9])
    assert (raised.value.field, raised.value.value) == ("min_bin_count", "3")
    # Each needs a bin of its own, and so there would be eight.
    with pytest.raises(ValueError, match="5 sequences, but needs 8"):
        nemo_rl.SequencePacker(10, bin_count_multiple=4).pack([6] * 5)
    with pytest.raises(ValueError, match="min_bin_count is -1; must be at least 0"):
        nemo_rl.SequencePacker(8, min_bin_count=-1)
    for multiple in (0, -5):
        with pytest.raises(ValueError, match=f"bin_count_multiple is {multiple}; must be at least 1"):
            nemo_rl.SequencePacker(8, bin_count_multiple=multiple)
    for wrong in ("best", object()):
        with pytest.raises(ValueError, match="which is none of balanced"):
            nemo_rl.get_packer(wrong, 8)


def test_metrics_are_of_all_that_was_packed():
    packer = nemo_rl.SequencePacker(10, collect_metrics=True, algorithm="concatenative")
    assert packer.get_aggregated_metrics() == {}
    packer.pack([6, 3, 8])  # 9 and 8 of 10
    packer.pack([5])
    assert packer.get_aggregated_metrics() == pytest.approx({
        "total_sequences": 4, "total_bins": 3, "average_utilization": 22 / 30, "min_utilization": 0.5,
        "max_utilization": 0.85, "average_waste_ratio": 8 / 30, "min_waste_ratio": 0.15, "max_waste_ratio": 0.5,
        "average_bin_count": 1.5, "bin_efficiency": 1.0})
    assert packer.compute_metrics([6, 3, 8], [[0, 1], [2]]) == pytest.approx({
        "num_sequences": 3, "num_bins": 2, "total_sequence_length": 17, "total_bin_capacity": 20, "total_waste": 3,
        "average_utilization": 0.85, "waste_ratio": 0.15, "bin_balance": 1 - 0.1 / 2**0.5 / 0.85,
        "theoretical_min_bins": 2, "bin_efficiency": 1.0})
    assert set(packer.compute_metrics([], []).values()) == {0}
    assert packer.metrics.bin_counts == [2, 1]
    packer.metrics.update([5], [[0]], 10, packing_time=0.25)
    assert packer.get_aggregated_metrics()["average_packing_time"] == 0.25
    packer.reset_metrics()
    assert packer.get_aggregated_metrics() == {} and packer.metrics.packing_times == []
    plain = nemo_rl.SequencePacker(10)
    plain.pack([5])
    assert plain.metrics is None and plain.get_aggregated_metrics() == {}


class PackingAlgorithm(enum.Enum):
    CONCATENATIVE = "concatenative"


@pytest.fixture
def trainer(monkeypatch):
    """The modules of NeMo-RL that install() knows: the one that divides batches, and that of packers."""
    def stock(*args, **kwargs):
        raise AssertionError("NeMo-RL's own packer")

    batched = types.ModuleType("nemo_rl.distributed.batched_data_dict")
    packing = types.ModuleType("nemo_rl.data.packing.algorithms")
    batched.get_packer = packing.get_packer = stock
    packing.SequencePacker = abc.ABCMeta("SequencePacker", (), {})
    for name in ("nemo_rl", "nemo_rl.distributed", "nemo_rl.data", "nemo_rl.data.packing"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    for module in (batched, packing):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    batched.SequencePacker = packing.SequencePacker
    return batched


def packed(trainer, lengths):
    """By the call that shard_by_batch_size makes."""
    packer = trainer.get_packer(
        algorithm=PackingAlgorithm.CONCATENATIVE, bin_capacity=4096, collect_metrics=False,
        min_bin_count=8, bin_count_multiple=8)
    assert isinstance(packer, trainer.SequencePacker)
    return packer.pack(sequence_lengths=lengths)


def test_installed_it_packs_the_batches_of_the_trainer(trainer):
    lengths = long_tailed(300, 4)
    nemo_rl.install()
    assert packed(trainer, lengths) == nemo_rl.get_packer("balanced", 4096, False, 8, 8).pack(lengths)
    nemo_rl.install(algorithm=None)
    assert packed(trainer, lengths) == nemo_rl.get_packer("concatenative", 4096, False, 8, 8).pack(lengths)
    costs = batchplan.CostModel(0.0, 1.0)
    nemo_rl.install(cost=costs, effort="fast")
    of_squares = nemo_rl.get_packer("balanced", 4096, False, 8, 8, cost=costs, effort="fast")
    assert packed(trainer, lengths) == of_squares.pack(lengths)


def test_what_is_wrong_is_told_at_installation(trainer):
    before = trainer.get_packer
    for wrong in ({"algorithm": "best"}, {"algorithm": ""}, {"algorithm": 0}, {"effort": "much"}, {"cost": "cheap"}):
        with pytest.raises(ValueError):
            nemo_rl.install(**wrong)
    assert trainer.get_packer is before


def test_a_single_controller_that_packs_elsewhere_says_so(trainer, monkeypatch):
    setup = types.ModuleType("nemo_rl.algorithms.single_controller_utils.setup")
    setup.setup_single_controller = lambda config, tokenizer: "an actor with NeMo-RL's packer"
    for name in ("nemo_rl.algorithms", "nemo_rl.algorithms.single_controller_utils"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, setup.__name__, setup)
    script = types.ModuleType("__main__")
    script.setup_single_controller = setup.setup_single_controller
    monkeypatch.setitem(sys.modules, "__main__", script)
    nemo_rl.install()
    with pytest.raises(batchplan.FailedPrecondition, match="call it in SingleControllerActor.__init__"):
        script.setup_single_controller("config", tokenizer="words")


def test_without_the_trainer_there_is_nothing_to_install():
    with pytest.raises(ImportError, match="nemo_rl"):
        nemo_rl.install()
