"""BatchSampler: the micro-batches that each rank has in every step."""

import pytest

pytest.importorskip("torch")

import batchplan
from batchplan.torch import BatchSampler
from samplers import BATCH, BUDGET, COUNT, lengths_of, sampler_of


@pytest.mark.parametrize("drop_last", [False, True])
def test_every_global_batch_has_the_microbatches_of_a_step(drop_last):
    samplers = [sampler_of(rank, microbatches_per_step=8, drop_last=drop_last) for rank in range(2)]
    steps = 4 if drop_last else 5
    lengths = lengths_of()
    for _ in range(3):
        assert [len(sampler) for sampler in samplers] == [8 * steps] * 2
        of_ranks = [list(sampler) for sampler in samplers]
        assert [len(one) for one in of_ranks] == [8 * steps] * 2
        for step in range(steps):
            batch = [index for one in of_ranks for slot in one[8 * step : 8 * step + 8] for index in slot]
            assert len(set(batch)) == len(batch) == (BATCH if step < 4 else COUNT - 4 * BATCH)
        assert all(batch and lengths[batch].sum() <= BUDGET for one in of_ranks for batch in one)


def test_a_last_global_batch_of_too_few_sequences_is_evened_out_with_the_one_before():
    lengths = lengths_of(103)
    sampler = BatchSampler(lengths, 50, dp=2, max_tokens=BUDGET, microbatches_per_step=8)
    assert [len(sampler.plan(step)[1]) for step in range(sampler.steps)] == [50, 27, 26]
    ones = BatchSampler([5] * 19, 8, dp=2, max_tokens=8, microbatches_per_step=4, drop_last=True)
    assert len(ones) == 8
    with pytest.raises(ValueError, match="has 9 sequences, but needs 10 micro-batches.*: drop_last=True leaves out"):
        BatchSampler([5] * 19, 8, dp=2, max_tokens=8, microbatches_per_step=4)


def test_mini_batches_are_the_steps_where_there_are_any():
    sampler = sampler_of(mini_batch_size=10, microbatches_per_step=4)
    assert len(sampler) == len(list(sampler)) == 4 * COUNT // 10


def test_a_pass_may_ignore_mini_batches():
    one = batchplan.Pass(BUDGET, ignore_mini_batches=True)
    sampler = sampler_of(max_tokens=None, passes=[one], mini_batch_size=10, microbatches_per_step=8)
    assert len(sampler) == len(list(sampler)) == 8 * sampler.steps


def test_more_microbatches_than_a_step_has_are_refused():
    with pytest.raises(ValueError, match=r"microbatches_per_step is 1; global batch 0 of epoch 0 needs \d+ on each rank"):
        sampler_of(microbatches_per_step=1)


# Full to the last token: more than the quickest packers find.
TIGHT = [59, 44, 41, 40, 33, 24, 21, 20, 15, 3]


@pytest.mark.parametrize("effort", ["fast", "default"])
def test_microbatches_that_are_hard_to_find_are_found(effort):
    sampler = BatchSampler(TIGHT, 10, max_tokens=100, microbatches_per_step=3, effort=effort)
    assert sorted(index for batch in sampler for index in batch) == list(range(10))
    assert len(sampler) == 3


@pytest.mark.parametrize("lengths", [TIGHT, [90, 90, 90]])
def test_as_many_microbatches_as_a_global_batch_needs_are_named(lengths):
    """Not twice as many, for which there may be too few sequences."""
    with pytest.raises(ValueError, match="microbatches_per_step is 2; global batch 0 of epoch 0 needs 3 on each rank"):
        BatchSampler(lengths, len(lengths), max_tokens=100, microbatches_per_step=2)
    BatchSampler(lengths, len(lengths), max_tokens=100, microbatches_per_step=3)


def test_slots_are_not_added_for_sequences_above_the_budget_either():
    # With the group on one rank and the others on the other one two are enough; with more, each rank has one of these.
    sampler = BatchSampler(
        [10_000, 10_000, 500, 500], 4, dp=2, max_tokens=10, overlong="alone", groups="same_rank",
        group_ids=[0, 1, 2, 2], synchronization="accumulated", allow_empty_microbatches=True,
        microbatches_per_step=2, shuffle=False)
    assert len(sampler) == len(list(sampler)) == 2


def test_slots_that_would_shorten_a_step_are_not_added():
    lengths = [40, 15, 52, 31, 58, 20, 15, 51]
    options = {"max_tokens": 171, "cost": batchplan.CostModel(0.0, 1.0), "dp": 2}
    assert len(list(batchplan.plan(lengths, **options).rank(0))) == 2
    sampler = BatchSampler(lengths, 8, microbatches_per_step=1, shuffle=False, **options)
    assert len(sampler) == len(list(sampler)) == 1


def test_a_global_batch_is_planned_once(monkeypatch):
    from batchplan.torch import _batch_planner

    planned = []
    make_plan = _batch_planner.make_plan
    monkeypatch.setattr(_batch_planner, "make_plan", lambda *given, **options: planned.append(1) or make_plan(*given, **options))
    sampler = sampler_of()
    # The longest sequences, and the first global batch.
    assert len(planned) == 2
    assert len(sampler) == len(sampler) == len(list(sampler))
    assert len(planned) == 1 + sampler.steps == 6
    assert len(sampler) == len(list(sampler))
    assert len(planned) == 11


def test_a_state_without_a_number_of_microbatches_is_of_as_few_as_it_takes():
    state = sampler_of().state_dict()
    del state["microbatches_per_step"]
    sampler_of().load_state_dict(state)
    with pytest.raises(ValueError, match="microbatches_per_step is 8; it was None when"):
        sampler_of(microbatches_per_step=8).load_state_dict({**state, "slot": 1})


def test_what_would_divide_the_batches_once_more_is_refused():
    with pytest.raises(RuntimeError, match="those of one rank of 2 already.*leave the DataLoader out of accelerator.prepare"):
        getattr(sampler_of(), "batch_size", None)
    assert getattr(sampler_of(dp=1), "batch_size", None) is None
