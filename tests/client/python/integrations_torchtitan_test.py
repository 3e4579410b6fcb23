"""batchplan.integrations.torchtitan: the rows of a step, and their place in a Batcher of stand-ins."""

import itertools
import sys
import types

import batchplan
import pytest
from batchplan.integrations import torchtitan
from lengths import assert_each_once, lockstep, long_tailed


def batcher_of_stand_ins():
    class Batcher:
        """Samples are their lengths; rows are dealt to the ranks of all micro-batches in turn."""

        def __init__(self, seq_len, dp_degree, local_batch_size, multiple=1):
            self.seq_len, self._dp_degree, self.local_batch_size = seq_len, dp_degree, local_batch_size
            self.multiple = multiple

        def num_tokens_to_pack(self, sample):
            return -(-sample // self.multiple) * self.multiple

        def _assign_training_samples_to_rows(self, training_samples):
            rows = [[]]
            for sample in training_samples:
                if sum(map(self.num_tokens_to_pack, [*rows[-1], sample])) > self.seq_len:
                    rows.append([])
                rows[-1].append(sample)
            return rows

        def grid(self, training_samples):
            """[micro-batches][ranks] of local_batch_size rows."""
            rows = self._assign_training_samples_to_rows(training_samples)
            at_once = self._dp_degree * self.local_batch_size
            number = -(-len(rows) // at_once)
            rows += [[]] * (number * at_once - len(rows))
            cells = number * self._dp_degree
            return [[rows[microbatch * self._dp_degree + rank :: cells] for rank in range(self._dp_degree)]
                    for microbatch in range(number)]

    return Batcher


@pytest.fixture
def trainer(monkeypatch):
    module = types.ModuleType("torchtitan.experiments.rl.components.batcher")
    module.Batcher = batcher_of_stand_ins()
    for name in ("torchtitan", "torchtitan.experiments", "torchtitan.experiments.rl",
                 "torchtitan.experiments.rl.components"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def time_of(grid):
    """Of rows whose tokens cost the same whatever they hold, as they are padded, and whose attention does not."""

    def cost(row):
        return 24576 * 4096 + sum(one**2 for one in row)

    return sum(max(sum(map(cost, cell)) for cell in ranks) for ranks in grid)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_a_step_has_fewer_rows_and_ranks_alike(trainer, seed, rows):
    lengths = long_tailed(400, seed)
    batcher = trainer.Batcher(4096, 4, rows)
    stock = batcher.grid(lengths)
    torchtitan.install()
    planned = batcher.grid(lengths)
    found = [row for ranks in planned for cell in ranks for row in cell]
    assert sorted(itertools.chain(*found)) == sorted(lengths)
    assert all(0 < sum(row) <= 4096 for row in found)
    assert all(len(cell) == rows for ranks in planned for cell in ranks)
    # Three rows a rank may take as many micro-batches.
    assert len(planned) <= len(stock) and time_of(planned) < (0.9 if rows == 1 else 1) * time_of(stock)
    # As if ranks waited for none.
    assert time_of(planned) < 1.01 * sum(time_of([[cell]]) for ranks in planned for cell in ranks) / 4


def test_rows_keep_seq_len_as_samples_are_padded(trainer):
    torchtitan.install()
    grid = trainer.Batcher(64, 2, 2, multiple=8).grid([17] * 31)
    assert max(len(row) for ranks in grid for cell in ranks for row in cell) == 2


@pytest.mark.parametrize("count", [1, 3, 5, 8])
def test_of_few_samples_no_rank_has_padding_alone_that_need_not(trainer, count):
    torchtitan.install()
    lengths = [60, 50, 40, 64, 30, 33, 55, 45][:count]
    grid = trainer.Batcher(64, 2, 2).grid(lengths)
    cells = [cell for ranks in grid for cell in ranks]
    assert sorted(one for cell in cells for row in cell for one in row) == sorted(lengths)
    assert sum(any(cell) for cell in cells) == min(len(cells), count)
    assert trainer.Batcher(64, 2, 2)._assign_training_samples_to_rows([]) == []


def test_costs_are_those_of_rows_as_wide_as_seq_len():
    lengths = long_tailed(300, 2)

    def slots_of(**options):
        rows = torchtitan.assign_rows(lengths, seq_len=4096, dp_degree=4, local_batch_size=1, **options)
        return [rows[first : first + 4] for first in range(0, len(rows), 4)]

    slots = slots_of()
    assert_each_once([row for slot in slots for row in slot], 300)
    # A shape whose attention is dear is balanced by that; ranks that wait at the end alone, otherwise.
    dear = slots_of(cost=batchplan.CostModel(1.0, 1.0))
    even = sum(sum(lengths[one] ** 2 for one in row) for slot in dear for row in slot) / 4
    assert sum(max(sum(lengths[one] ** 2 for one in row) for row in slot) for slot in dear) < 1.4 * even
    assert slots_of(synchronization="accumulated") != slots
    assert lockstep(lengths, slots) > 0


def test_what_can_not_be_planned_is_refused(trainer):
    for wrong in ({"cost": 3.0}, {"effort": "much"}, {"synchronization": "never"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            torchtitan.install(**wrong)
    with pytest.raises(ValueError, match="max_tokens"):
        torchtitan.assign_rows([65, 3], seq_len=64, dp_degree=2, local_batch_size=1)

    class OwnBatcher(trainer.Batcher):
        def _assign_training_samples_to_rows(self, training_samples):
            return [training_samples]

    with pytest.raises(ValueError, match="OwnBatcher is a Batcher with a _assign_training_samples_to_rows of its own"):
        torchtitan.install()


def test_without_the_trainer_there_is_nothing_to_install():
    with pytest.raises(ImportError, match="torchtitan"):
        torchtitan.install()
