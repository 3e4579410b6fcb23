"""BatchSampler: windows of global batches that exchange sequences."""

import itertools
import json

import numpy
import pytest

pytest.importorskip("torch")

import batchplan
from batchplan.torch import BatchSampler
from samplers import BATCH, BUDGET, COUNT, sampler_of


def windowed(rank=0, **options):
    return sampler_of(rank, seed=3, window=3, **options)


def test_a_window_trains_every_sequence_once_an_epoch_near_its_place():
    # Few are long, so that ranks wait for one.
    lengths = numpy.where(numpy.arange(COUNT) % 23, 20, 500)
    plain, together = (
        BatchSampler(lengths, BATCH, window=window, dp=8, max_tokens=BUDGET, seed=3) for window in (1, 3)
    )
    moved, faster = 0, 0.0
    for epoch in range(3):
        for sampler in (plain, together):
            sampler.set_epoch(epoch)
        step_of = {}
        for step in range(plain.steps):
            plan, batch = plain.plan(step)
            step_of.update(dict.fromkeys(batch.tolist(), step))
            faster += plan.metrics.predicted_step_time
        every = []
        for step in range(together.steps):
            plan, batch = together.plan(step)
            assert len(batch) == (BATCH if step < 4 else COUNT - 4 * BATCH)
            every += batch.tolist()
            moved += sum(step_of[one] != step for one in batch.tolist())
            # Of its window: steps 0 to 2, and 3 and 4, of which the last is a smaller one.
            assert all(step_of[one] // 3 == step // 3 for one in batch.tolist())
            faster -= plan.metrics.predicted_step_time
        assert sorted(every) == list(range(COUNT))
        assert faster >= -1e-6
    assert moved > 0 and faster > 100


@pytest.mark.parametrize("taken", [1, 5, 9, 14, 20])
def test_a_window_resumes_where_it_was(taken):
    reference = windowed()
    every = [list(reference), list(reference)]
    sampler = windowed()
    begun = list(itertools.islice(sampler, taken))
    state = json.loads(json.dumps(sampler.state_dict()))
    resumed = windowed()
    resumed.load_state_dict(state)
    assert begun + list(resumed) == every[0]
    assert list(resumed) == every[1]
    state["planner_version"] = "another"
    if state["step"] % 3 or state["slot"]:
        with pytest.raises(ValueError, match="saved amid a global batch, a window or an epoch"):
            windowed().load_state_dict(state)
    else:
        windowed().load_state_dict(state)


def test_ranks_agree_on_a_window():
    of_ranks = [list(windowed(rank, microbatches_per_step=6)) for rank in range(2)]
    assert len(of_ranks[0]) == len(of_ranks[1]) == 6 * 5
    assert sorted(index for rank in of_ranks for batch in rank for index in batch) == list(range(COUNT))


def test_a_window_keeps_groups_together():
    groups = numpy.arange(COUNT) // 5
    sampler = windowed(group_ids=groups, groups="same_mini_batch")
    for step in range(sampler.steps):
        _, batch = sampler.plan(step)
        assert (numpy.unique(groups[batch], return_counts=True)[1] == 5).all()


@pytest.mark.parametrize("options, named", [
    ({"window": 0}, "window is 0; must be at least 1"),
    ({"selection": batchplan.Selection(sequences=10)}, "selection is set; a sampler gives out all sequences"),
    ({"ages": [0] * COUNT}, "ages is set"),
    ({"window": 2, "mini_batch_size": 10}, "mini_batch_size is 10: leave one of them out"),
])
def test_a_window_that_cannot_be_is_refused(options, named):
    with pytest.raises(ValueError, match=named):
        sampler_of(**options)
