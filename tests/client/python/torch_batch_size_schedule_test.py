"""BatchSampler with a batch size that grows as training goes on."""

import itertools
import json

import numpy
import pytest

torch = pytest.importorskip("torch")

from batchplan.torch import BatchSampler, BatchSizeSchedule
from batchplan.torch._epoch_sizes import sizes_of_epochs

BUDGET = 1000


def lengths_of(count, seed=0):
    lengths = numpy.random.default_rng(seed).lognormal(numpy.log(0.1), 0.8, count) * BUDGET
    return lengths.clip(1, BUDGET).astype(int)


def sampler_of(count, stages, **options):
    schedule = stages if isinstance(stages, BatchSizeSchedule) else BatchSizeSchedule(stages)
    return BatchSampler(lengths_of(count), schedule, **{"dp": 2, "max_tokens": BUDGET, "seed": 1, "effort": "fast", **options})


def sizes_of(sampler, epoch):
    sampler.set_epoch(epoch)
    return [len(sampler.plan(step)[1]) for step in range(sampler.steps)]


def test_the_batch_size_grows_amid_epochs():
    sampler = sampler_of(100, [(0, 8), (50, 16), (230, 32)])
    # 56 sequences in batches of 8, then 16 to 232 in the third epoch.
    assert sizes_of(sampler, 0) == [8] * 7 + [16, 16, 12]
    assert sizes_of(sampler, 1) == [16] * 6 + [4]
    assert sizes_of(sampler, 2) == [16, 16, 32, 32, 4]
    assert sizes_of(sampler, 3) == sizes_of(sampler, 50) == [32, 32, 32, 4]


def test_steps_and_length_are_those_of_each_epoch():
    sampler = sampler_of(100, [(0, 8), (50, 16), (230, 32)], microbatches_per_step=4)
    trained = []
    for epoch, steps in enumerate((10, 7, 5, 4, 4)):
        assert (sampler.epoch, sampler.steps, len(sampler)) == (epoch, steps, 4 * steps)
        other = sampler_of(100, [(0, 8), (50, 16), (230, 32)], microbatches_per_step=4, rank=1)
        other.set_epoch(epoch)
        trained = list(sampler) + list(other)
        assert len(trained) == 8 * steps and sorted(sum(trained, [])) == list(range(100))


def expected_sizes(count, stages, drop_last, epochs):
    """One global batch after the other, as training has them."""
    trained, found = 0, []
    for _ in range(epochs):
        left, sizes = count, []
        while left:
            size = max(size for start, size in stages if start <= trained)
            if size > left and drop_last:
                break
            sizes.append(min(size, left))
            left -= sizes[-1]
            trained += sizes[-1]
        found.append(sizes)
    return found


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_sizes_are_those_of_the_sequences_so_far_in_every_epoch(seed, drop_last):
    random = numpy.random.default_rng(seed)
    count, number = int(random.integers(20, 200)), int(random.integers(1, 7))
    starts = [0, *sorted(random.choice(numpy.arange(1, 5 * count), number - 1, replace=False).tolist())]
    sizes = sorted(random.choice(numpy.arange(1, 20), number, replace=False).tolist())
    stages = list(zip(starts, sizes))
    found = sizes_of_epochs(
        count, BatchSizeSchedule(stages), least=1, drop_last=drop_last, keeps_sizes=False, is_grouped=False)
    for epoch, expected in enumerate(expected_sizes(count, stages, drop_last, 40)):
        own = [one for one in found if one.epoch <= epoch][-1]
        assert numpy.diff(own.ends, prepend=0).tolist() == expected, epoch
    assert len(found) <= 2 * number


@pytest.mark.parametrize("options", [
    {}, {"drop_last": True}, {"microbatches_per_step": 4, "max_tokens": 2 * BUDGET}, {"window": 3}, {"dp": 8, "allow_empty_microbatches": True},
    {"mini_batch_size": 4}, {"groups": "same_rank", "group_ids": numpy.arange(240) // 4},
])
def test_every_sequence_comes_once_an_epoch_and_ranks_agree(options):
    stages = [(0, 8), (100, 24), (500, 48)]
    ranks = options.get("dp", 2)
    samplers = [sampler_of(240, stages, rank=rank, **options) for rank in range(ranks)]
    for epoch in range(4):
        assert {one.epoch for one in samplers} == {epoch}
        lengths = {len(one) for one in samplers}
        of_ranks = [list(one) for one in samplers]
        assert {len(one) for one in of_ranks} == lengths and len(lengths) == 1
        trained = [index for one in of_ranks for batch in one for index in batch]
        assert len(set(trained)) == len(trained)
        assert len(trained) == 240 or (options.get("drop_last") and len(trained) > 240 - 48)


@pytest.mark.parametrize("taken", [0, 3, 17, 30, 45])
def test_a_state_goes_on_in_the_schedule(taken):
    def made(**options):
        return sampler_of(100, [(0, 8), (50, 16), (230, 32)], **options)

    whole = made()
    expected = list(itertools.chain.from_iterable(list(whole) for _ in range(5)))
    sampler, begun = made(), []
    while len(begun) < taken:
        begun += itertools.islice(sampler, taken - len(begun))
    resumed = made()
    resumed.load_state_dict(json.loads(json.dumps(sampler.state_dict())))
    rest = []
    while resumed.epoch < 5:
        rest += resumed
    assert begun + rest == expected


def test_a_state_goes_on_in_the_schedule_with_another_dp():
    stages = [(0, 8), (50, 16), (230, 32)]
    sampler = sampler_of(100, stages)
    sampler.set_epoch(2)
    expected = [sampler.plan(step)[1].tolist() for step in range(sampler.steps)]
    iterator = iter(sampler)
    for _ in sampler.plan(0)[0].rank(0):
        next(iterator)
    # Among eight ranks the last four of an epoch are divided with those before them.
    for dp, same in ((1, 4), (4, 4), (8, 2)):
        resumed = sampler_of(100, stages, dp=dp)
        resumed.load_state_dict(sampler.state_dict())
        batches = [resumed.plan(step)[1].tolist() for step in range(1, resumed.steps)]
        assert batches[:same] == expected[1:][:same]
        assert sorted(sum(batches, [])) == sorted(sum(expected[1:], []))
    with pytest.raises(ValueError, match=r"batch_size is \[\[0, 8\], \[50, 16\]\]; it was \[\[0, 8\], \[50, 16\], \[230, 32\]\]"):
        sampler_of(100, stages[:2]).load_state_dict(sampler.state_dict())
    with pytest.raises(ValueError, match=r"batch_size is 8; it was \[\[0, 8\]"):
        BatchSampler(lengths_of(100), 8, dp=2, max_tokens=BUDGET, seed=1).load_state_dict(sampler.state_dict())


def test_a_schedule_of_one_size_is_that_size():
    plain = BatchSampler(lengths_of(100), 16, dp=2, max_tokens=BUDGET, seed=1, effort="fast")
    scheduled = sampler_of(100, [(0, 16)])
    assert list(plain) == list(scheduled) and plain.state_dict() == scheduled.state_dict()


def test_rampup_is_megatrons():
    schedule = BatchSizeSchedule.rampup(16, 8, 100, batch_size=40)
    assert schedule.stages == ((0, 16), (34, 24), (67, 32), (100, 40))
    for trained in range(150):
        # As Megatron-LM's RampupBatchsizeNumMicroBatchesCalculator has it.
        expected = 40 if trained > 100 else 16 + int(trained / (100 / 3)) * 8
        assert schedule.stage_at(trained)[0] == expected


def test_every_epoch_is_tried_at_the_beginning():
    """The second stage's batches can't be divided, which no epoch before has."""
    lengths = [600] * 40 + [300] * 8
    BatchSampler(lengths, BatchSizeSchedule([(0, 12), (130, 16)]), dp=4, max_tokens=BUDGET)
    with pytest.raises(ValueError, match="microbatches_per_step is 4; global batch 0 of epoch 4 needs 6 on each rank"):
        BatchSampler(lengths, BatchSizeSchedule([(0, 12), (150, 24)]), dp=4, max_tokens=BUDGET, microbatches_per_step=4,
                     allow_empty_microbatches=True)
    with pytest.raises(ValueError, match="lengths has 48 entries to plan, which make no global batch in epoch 3; batch_size is 64"):
        BatchSampler(lengths, BatchSizeSchedule([(0, 12), (144, 64)]), max_tokens=BUDGET, drop_last=True)
    with pytest.raises(ValueError, match="batch_size is 30; global batch 0 of epoch 3 would end within group"):
        BatchSampler(lengths, BatchSizeSchedule([(0, 12), (144, 30)]), max_tokens=BUDGET, mini_batch_size=12,
                     groups="same_mini_batch", group_ids=numpy.arange(48) // 12)


@pytest.mark.parametrize("stages, named", [
    ([], "batch_size.stages is .*; must be pairs"),
    (5, "batch_size.stages is 5; must be pairs"),
    ([8], r"batch_size.stages\[0\] is 8; must be a pair"),
    ([(5, 8)], r"batch_size.stages\[0\]\[0\] is 5; must be 0"),
    ([(0, 0)], r"batch_size.stages\[0\]\[1\] is 0; must be at least 1"),
    ([(0, 8), (0, 16)], r"batch_size.stages\[1\]\[0\] is 0; must be above 0"),
    ([(0, 8), (9, 8)], r"batch_size.stages\[1\]\[1\] is 8; must be above 8"),
    ([(0, 8.5)], r"batch_size.stages\[0\]\[1\] is 8.5; must be a whole number"),
])
def test_stages_that_do_not_grow_are_refused(stages, named):
    with pytest.raises(ValueError, match=named):
        BatchSizeSchedule(stages)


@pytest.mark.parametrize("given, named", [
    ((0, 8, 100, 40), "start is 0; must be at least 1"),
    ((16, 8, 100, 36), "batch_size is 36; must be start, 16, and a multiple of increment, 8, more"),
    ((16, 8, 100, 16), "batch_size is 16; must be start"),
    ((16, 8, 2, 40), "sequences is 2; must be at least 3"),
])
def test_a_rampup_that_leads_nowhere_is_refused(given, named):
    with pytest.raises(ValueError, match=named):
        BatchSizeSchedule.rampup(*given[:3], batch_size=given[3])


def test_the_smallest_size_has_a_sequence_for_each_micro_batch():
    with pytest.raises(ValueError, match="batch_size is 8; must be at least 16, for 8 micro-batches"):
        sampler_of(100, [(0, 8), (50, 16)], microbatches_per_step=8)
