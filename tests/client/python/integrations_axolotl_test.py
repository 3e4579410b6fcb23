"""batchplan.integrations.axolotl: an epoch in batches, and its place in an axolotl of stand-ins."""

import importlib
import sys
import types

import batchplan
import numpy
import pytest
from batchplan.integrations import axolotl
from batchplan.integrations._replace import stock_of
from lengths import assert_each_once, lockstep, long_tailed

COSTS = batchplan.CostModel(24576.0, 1.0)


def bins_of(batches):
    return [one for batch in batches for one in batch]


@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_batches_that_run_at_once_are_alike_in_cost(batch_size, seed):
    lengths = long_tailed(3000, seed)
    batches = axolotl.plan_batches(
        lengths, 4096, ranks=4, gradient_accumulation_steps=4, batch_size=batch_size, cost=COSTS)
    assert_each_once(bins_of(batches), 3000)
    assert {len(batch) for batch in batches} == {batch_size} and len(batches) % 4 == 0
    assert all(0 < sum(lengths[i] for i in one) <= 4096 for one in bins_of(batches))
    slots = [[bins_of([batch]) for batch in batches[first : first + 4]] for first in range(0, len(batches), 4)]
    whole = [[[i for one in batch for i in one] for batch in slot] for slot in slots]
    even = sum(lockstep(lengths, [[part]]) for slot in whole for part in slot) / 4
    assert lockstep(lengths, whole) < 1.05 * even
    # The tokens alone need so many bins.
    assert len(bins_of(batches)) < 1.05 * sum(lengths) / 4096 + 4 * batch_size


def test_steps_take_the_sequences_in_the_order_in_which_they_were_drawn():
    lengths = long_tailed(2000, 5)
    batches = axolotl.plan_batches(lengths, 4096, ranks=2, gradient_accumulation_steps=3)
    steps = [sorted(i for one in bins_of(batches[first : first + 6]) for i in one) for first in range(
        0, len(batches), 6)]
    assert [i for step in steps[:-2] for i in step] == list(range(sum(map(len, steps[:-2]))))
    # All but the last, which takes the rest, are full.
    assert all(sum(lengths[i] for i in step) > 0.8 * 6 * 4096 for step in steps[:-2])


def test_few_sequences_and_long_ones():
    assert axolotl.plan_batches([], 10, ranks=4) == []
    assert axolotl.plan_batches([3, 4, 5], 10, ranks=4) in ([[[0, 1]], [[2]]], [[[0]], [[1, 2]]], [[[0, 2]], [[1]]])
    assert axolotl.plan_batches([3, 4], 10, ranks=4, batch_size=2) == []
    assert axolotl.plan_batches([3, 4], 10, ranks=4, batch_size=2, drop_last=False) == [[[0, 1]]]
    # Each sequence needs a bin, and so a step has as many as bins.
    full = axolotl.plan_batches([10] * 24, 10, ranks=2, gradient_accumulation_steps=3)
    assert len(full) == 24 and all(len(batch) == 1 and len(batch[0]) == 1 for batch in full)
    short = axolotl.plan_batches([10] * 299, 10, ranks=1, gradient_accumulation_steps=300)
    assert_each_once(bins_of(short), 299)
    few = axolotl.plan_batches([1] * 60, 100, ranks=2, bin_size=5)
    assert len(few) >= 12 and max(map(len, bins_of(few))) == 5
    for lengths, message in (([3] * 50 + [11], r"sequence 50 has 11 tokens; batch_max_len is 10"),
                             ([3] * 50 + [0], r"sequence 50 has 0 tokens; must have at least 1")):
        with pytest.raises(ValueError, match=message):
            axolotl.plan_batches(lengths, 10, ranks=1)
    for name in ("ranks", "gradient_accumulation_steps", "batch_size"):
        with pytest.raises(ValueError, match=f"{name} is 0; must be at least 1"):
            axolotl.plan_batches([3], 10, **{"ranks": 1, name: 0})


def drawn(name, number, random):
    """Lengths as parts of a bin."""
    if name == "uniform":
        return random.uniform(0.1, 1, number)
    if name == "long":
        return random.uniform(0.3, 1, number)
    if name == "alone":
        return random.uniform(0.51, 1, number)
    return random.lognormal(numpy.log(float(name)), 0.9, number).clip(0, 1)


@pytest.mark.parametrize("lengths_are", ["uniform", "long", "alone", "0.3", "0.1"])
@pytest.mark.parametrize("ranks", [2, 8])
@pytest.mark.parametrize("accumulated", [1, 4])
def test_every_epoch_goes_through_whatever_the_lengths(lengths_are, ranks, accumulated):
    random = numpy.random.default_rng(ranks * accumulated)
    for _ in range(20):
        number = int(random.integers(1, 250))
        lengths = numpy.maximum(drawn(lengths_are, number, random) * 2048, 1).astype(int)
        batch_size, bin_size = int(random.choice([1, 1, 3])), random.choice([None, None, 4])
        drop_last = bool(random.integers(2))
        batches = axolotl.plan_batches(
            lengths, 2048, ranks=ranks, gradient_accumulation_steps=accumulated, batch_size=batch_size,
            bin_size=bin_size, drop_last=drop_last)
        bins = bins_of(batches)
        seen = sorted(place for one in bins for place in one)
        assert len(seen) == len(set(seen)) and all(0 < lengths[one].sum() <= 2048 for one in bins)
        assert bin_size is None or max(map(len, bins), default=0) <= bin_size
        at_once = ranks * batch_size
        lost = number - len(seen)
        if not drop_last:
            assert lost == 0
        elif number >= at_once:
            assert {len(batch) for batch in batches} == {batch_size} and len(batches) % ranks == 0
            if lengths_are == "alone":  # no two fit together
                assert lost == number % at_once
            else:  # of very few maybe some
                assert lost == 0 or number < 2 * at_once
        assert lost < at_once


def test_a_step_takes_fewer_sequences_where_more_do_not_fill_its_bins():
    batches = axolotl.plan_batches([6] * 8, 10, ranks=2)
    steps = [sorted(bins_of(batches[first : first + 2])) for first in range(0, len(batches), 2)]
    assert steps == [[[0], [1]], [[2], [3]], [[4], [5]], [[6], [7]]]
    assert sorted(bins_of(axolotl.plan_batches([6] * 9, 10, ranks=2))) == [[place] for place in range(8)]
    kept = axolotl.plan_batches([6] * 9, 10, ranks=2, drop_last=False)
    assert sorted(bins_of(kept)) == [[place] for place in range(9)]
    # The last ones are divided with those before them, of which two share a bin.
    even = axolotl.plan_batches([4, 4, *[6] * 7], 10, ranks=2)
    assert_each_once(bins_of(even), 9)
    assert len(even) == 8
    with pytest.raises(ValueError, match="max_sequences_per_microbatch"):
        axolotl.plan_batches([6] * 8, 10, ranks=2, bin_size=-1)


def test_every_epoch_has_as_many_batches_where_a_number_is_given():
    """axolotl's sampler leaves out what an epoch has beyond those of an earlier one."""
    random = numpy.random.default_rng(0)
    lengths = (random.uniform(0.1, 1, 600) * 2048).astype(int)
    counts = []
    for _ in range(12):
        random.shuffle(lengths)
        counts.append(len(axolotl.plan_batches(lengths, 2048, ranks=2)))
        given = axolotl.plan_batches(lengths, 2048, ranks=2, batches=counts[0])
        assert len(given) == counts[0]
        assert_each_once(bins_of(given), 600)
        assert all(lengths[one].sum() <= 2048 for one in bins_of(given))
    assert len(set(counts)) > 1
    more = axolotl.plan_batches([3, 4, 5, 6], 10, ranks=1, batches=4)
    assert len(more) == 4
    # As many as there can be.
    assert len(axolotl.plan_batches([6] * 4, 10, ranks=2, batches=2)) == 4
    with pytest.raises(ValueError, match="batches is 3; must be a multiple of ranks 2"):
        axolotl.plan_batches([6] * 4, 10, ranks=2, batches=3)


class MultipackBatchSampler:
    """What axolotl's sampler keeps, and what of it is replaced."""

    def __init__(self, order, lengths, batch_max_len, sequential=False):
        self.sampler, self.lengths = order, numpy.array(lengths, dtype=numpy.int32)
        self.batch_max_len, self.batch_size, self.bin_size = batch_max_len, 1, None
        self.sequential, self.drop_last = sequential, True
        self.total_tokens_used = self.total_token_slots = 0
        self._batches = self._len_across_ranks = None

    def generate_batches(self, set_stats=False):
        return self._batches or "axolotl's own"


class BasePlugin:
    def load_datasets(self, cfg):
        return "axolotl's own"


@pytest.fixture
def trainer(monkeypatch):
    """The sampler's module, and that of the plugins and the configuration."""
    multipack = types.ModuleType("axolotl.utils.samplers.multipack")
    multipack.MultipackBatchSampler = type("MultipackBatchSampler", (MultipackBatchSampler,), {
        "generate_batches": MultipackBatchSampler.generate_batches})
    base = types.ModuleType("axolotl.integrations.base")
    base.BasePlugin = BasePlugin
    manager = types.SimpleNamespace(cfg=None)
    base.PluginManager = types.SimpleNamespace(get_instance=lambda: manager)
    for name in ("axolotl", "axolotl.utils", "axolotl.utils.samplers", "axolotl.integrations"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    for module in (multipack, base):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    multipack.manager = manager
    return multipack


def test_the_plugin_plans_by_the_configuration(trainer, monkeypatch):
    # As axolotl loads it by its name.
    plugin = getattr(importlib.import_module("batchplan.integrations.axolotl"), "BatchplanPlugin")()
    assert isinstance(plugin, BasePlugin) and plugin.load_datasets({}) == "axolotl's own"
    plugin.register({})
    lengths = long_tailed(800, 3)
    order = numpy.random.default_rng(1).permutation(800).tolist()

    def planned(**parallel):
        expected = axolotl.plan_batches([lengths[i] for i in order], 4096, **parallel)
        return [[[order[place] for place in one] for one in batch] for batch in expected]

    sampler = trainer.MultipackBatchSampler(order, lengths, 4096)
    assert sampler.generate_batches() == planned(ranks=1) and sampler.total_tokens_used == 0
    monkeypatch.setenv("WORLD_SIZE", "16")
    assert sampler.generate_batches() == planned(ranks=1)
    trainer.manager.cfg = {
        "gradient_accumulation_steps": 2, "tensor_parallel_size": 2, "context_parallel_size": 2, "other": 1}
    sampler = trainer.MultipackBatchSampler(order, lengths, 4096)
    batches = sampler.generate_batches(set_stats=True)
    assert batches == planned(ranks=4, gradient_accumulation_steps=2)
    assert sampler.total_tokens_used == sum(lengths) and sampler.total_token_slots == 4096 * len(batches)


def test_a_sequence_that_no_bin_holds_is_named_by_its_place_in_the_dataset(trainer):
    axolotl.install(ranks=2)
    lengths = long_tailed(400, 3)
    lengths[7] = 5000
    sampler = trainer.MultipackBatchSampler(range(399, -1, -1), lengths, 4096)
    with pytest.raises(ValueError, match="sequence 7 has 5000 tokens; batch_max_len is 4096"):
        sampler.generate_batches()


def test_installed_again_it_plans_by_what_was_said_last(trainer):
    lengths = long_tailed(400, 3)
    own = trainer.MultipackBatchSampler.generate_batches
    axolotl.install(ranks=2)
    axolotl.install(ranks=4, gradient_accumulation_steps=2, cost=COSTS)
    assert stock_of(trainer.MultipackBatchSampler.generate_batches) is own
    sampler = trainer.MultipackBatchSampler(range(400), lengths, 4096)
    assert sampler.generate_batches() == axolotl.plan_batches(
        lengths, 4096, ranks=4, gradient_accumulation_steps=2, cost=COSTS)
    in_order = trainer.MultipackBatchSampler(range(400), lengths, 4096, sequential=True)
    assert in_order.generate_batches() == "axolotl's own"
    for wrong in ({"cost": 3.0}, {"synchronization": "never"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            axolotl.install(**wrong)


def test_without_the_trainer_there_is_nothing_to_install():
    with pytest.raises(ImportError, match="axolotl"):
        axolotl.install()
    with pytest.raises(ImportError, match="axolotl"):
        axolotl.BatchplanPlugin
    with pytest.raises(AttributeError, match="'Plugin'"):
        axolotl.Plugin
