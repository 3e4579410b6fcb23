"""What sequences share, from their tokens to the micro-batches of a plan."""

import concurrent.futures
import json
import pickle
import random

import batchplan
import numpy
import pytest

OPTIONS = {"dp": 2, "max_tokens": 4096}


def stars(groups=12, size=8, prompt=700, seed=1):
    """Answers to prompts: their lengths, the prompts' and the groups."""
    draw = numpy.random.default_rng(seed)
    prompts = numpy.repeat(draw.integers(prompt // 2, prompt, groups), size)
    return prompts + draw.integers(1, 500, groups * size), prompts, numpy.repeat(numpy.arange(groups), size)


def paths(prefixes, withs, lengths):
    """Each sequence's tokens by who introduced them, as the relations say."""
    found = []
    for own, (prefix, other, length) in enumerate(zip(prefixes, withs, lengths)):
        shared = found[other][:prefix] if prefix else []
        found.append(shared + [(own, depth) for depth in range(len(shared), length)])
    return found


def common(one, other):
    return next((depth for depth, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))


def trees(draw, count):
    """Sequences of which some extend, copy or cut others."""
    made = []
    while len(made) < count:
        base = draw.choice(made) if made and draw.random() < 0.7 else []
        kept = base[: draw.randint(0, len(base))] if draw.random() < 0.8 else base
        made.append(kept + [draw.randint(0, 2) for _ in range(draw.choice((0, 0, 1, 3, 10)))])
    return made


@pytest.mark.parametrize("as_given", [
    list, tuple, lambda one: numpy.array(one, numpy.int64), lambda one: numpy.array(one, numpy.uint16),
    lambda one: numpy.array(one, numpy.uint32)[::1], lambda one: numpy.repeat(numpy.array(one, int), 2)[::2],
])
def test_any_two_share_all_that_they_have_in_common(as_given):
    for seed in range(60):
        draw = random.Random(seed)
        lists, minimum = trees(draw, draw.randint(0, 25)), draw.randint(1, 4)
        prefixes, withs = batchplan.common_prefixes([as_given(one) for one in lists], minimum)
        assert prefixes.dtype == withs.dtype == numpy.uint32 and len(prefixes) == len(withs) == len(lists)
        assert all(other < own for own, (prefix, other) in enumerate(zip(prefixes, withs)) if prefix)
        assert all(prefix == 0 or prefix >= minimum for prefix in prefixes)
        related = paths(prefixes.tolist(), withs.tolist(), map(len, lists))
        for i, one in enumerate(lists):
            for j, other in enumerate(lists[:i]):
                most = common(one, other)
                assert common(related[i], related[j]) == (most if most >= minimum else 0)


def test_each_is_related_to_the_earliest_that_shares_most():
    lists = [[1, 2, 3, 4], [1, 2, 9], [7], [1, 2, 3, 4], [1, 2, 9, 9], []]
    prefixes, withs = batchplan.common_prefixes(lists, 1)
    assert prefixes.tolist() == [0, 2, 0, 4, 3, 0]
    assert withs.tolist() == [0, 0, 0, 0, 1, 0]
    assert batchplan.common_prefixes(lists)[0].tolist() == [0] * 6


def test_tokens_of_any_size_are_compared_whole():
    lists = [[2**40, 5], [0, 5], [2**40, 6], [-1, 5], [2**32 - 1, 5]]
    assert batchplan.common_prefixes(lists, 1)[0].tolist() == [0, 0, 1, 0, 0]
    arrays = [numpy.array(one) for one in lists[:3]] + [numpy.array([0, 5, 1], numpy.int32), [0, 5, 1, 1]]
    assert batchplan.common_prefixes(arrays, 1)[0].tolist() == [0, 0, 1, 2, 3]


@pytest.mark.parametrize("lists, minimum, named", [
    ([[1], [2, 2.5]], 1, r"token_lists\[1\] is no list of tokens: number 1 of them is no whole number"),
    ([[1], ("a",)], 1, r"token_lists\[1\] is no list of tokens: number 0"),
    ([[2**63]], 1, r"token_lists\[0\] is no list of tokens: number 0"),
    ([numpy.ones(2)], 1, r"token_lists\[0\] has dtype float64"),
    ([[1], numpy.ones((2, 2), int)], 1, r"token_lists\[1\] is no array of tokens: it has 2 dimensions"),
    ([7, [1]], 1, r"token_lists\[0\] is no array of tokens: it has 0 dimensions"),
    ([[1]], 0, "minimum is 0; must be 1 to"),
    ([[1]], 1.5, "minimum is 1.5; must be a whole number"),
])
def test_what_are_no_tokens_is_named(lists, minimum, named):
    with pytest.raises(batchplan.InvalidRequest, match=named):
        batchplan.common_prefixes(lists, minimum)


def test_answers_share_their_prompt():
    lengths, prompts, groups = stars()
    plan = batchplan.plan(lengths, group_ids=groups, prompt_lengths=prompts, **OPTIONS)
    laid = 0
    for rank in range(2):
        for one in plan.rank(rank):
            shared = one.shared_tokens.tolist()
            of_group = [groups[index] for index in one.indices]
            expected = [prompts[own] if before == group else 0
                        for own, group, before in zip(one.indices, of_group, [None, *of_group])]
            assert shared == expected
            assert one.cu_seqlens_padded.tolist() == [0, *numpy.cumsum(one.lengths - one.shared_tokens)]
            assert one.cu_seqlens_padded[-1] <= one.width <= OPTIONS["max_tokens"]
            laid += int(one.cu_seqlens_padded[-1])
    assert plan.metrics.laid_tokens == laid < plan.metrics.true_tokens == lengths.sum()
    assert plan.metrics.unique_tokens == lengths.sum() - prompts.sum() + prompts[::8].sum()
    whole = batchplan.plan(lengths, group_ids=groups, **OPTIONS)
    assert plan.metrics.predicted_step_time < whole.metrics.predicted_step_time
    assert whole.metrics.laid_tokens == whole.metrics.unique_tokens == 0
    assert len(whole.passes[0].shared_tokens) == 0
    assert all(one.shared_tokens is None for one in whole.rank(0))


def test_prompts_are_prefixes_of_groups_and_found_in_tokens():
    lengths, prompts, groups = stars(groups=5, size=4)
    draw = numpy.random.default_rng(3)
    of_group = [draw.integers(0, 50_000, 700) for _ in range(5)]
    tokens = [numpy.concatenate([of_group[group][:prompt], [10**6 + place], draw.integers(0, 50_000, length)])
              for place, (group, prompt, length) in enumerate(zip(groups, prompts, lengths - prompts - 1))]
    assert [len(one) for one in tokens] == lengths.tolist()
    prefixes, withs = batchplan.common_prefixes(tokens)
    plans = [
        batchplan.plan(lengths, group_ids=groups, prompt_lengths=prompts, **OPTIONS),
        batchplan.plan(lengths, group_ids=groups, shared_prefixes=prompts, **OPTIONS),
        batchplan.plan(lengths, group_ids=groups, shared_prefixes=prefixes, shared_with=withs, **OPTIONS),
    ]
    assert len({plan.fingerprint for plan in plans}) == 1


@pytest.mark.parametrize("arguments, named", [
    ({"prompt_lengths": [1, 1, 1]}, "manifest.group_ids .*has 0 entries; with prompt_lengths it must have 3"),
    ({"prompt_lengths": [1], "group_ids": [0, 0, 0]}, "manifest.prompt_lengths .*has 1 entries"),
    ({"prompt_lengths": [5, 6, 5], "group_ids": [0, 1, 0]}, r"manifest.prompt_lengths\[1\] .*is 6; its sequence has 5"),
    ({"prompt_lengths": [2, 4, 3], "group_ids": [9, 1, 9]},
     r"manifest.prompt_lengths\[2\] .*is 3, but 2 of sequence 0, which is of the same group"),
    ({"prompt_lengths": [1, 1, 1], "group_ids": [0] * 3, "shared_with": [0] * 3},
     "prompt_lengths and shared_with are set"),
    ({"prompt_lengths": [1.5, 1, 1], "group_ids": [0] * 3}, r"manifest.prompt_lengths\[0\] .*is 1.5"),
    ({"shared_prefixes": [0, 1, 1]}, "manifest.shared_prefixes .*is set, but neither shared_with nor group_ids"),
    ({"shared_with": [0, 0, 0]}, "manifest.shared_with .*is set, but shared_prefixes is empty"),
    ({"shared_prefixes": [0, 1], "shared_with": [0, 0, 0]}, "manifest.shared_prefixes .*has 2 entries"),
    ({"shared_prefixes": [0, 1, 1], "shared_with": [0, 0, 2]}, r"manifest.shared_with\[2\] .*is 2; it must be below 2"),
    ({"shared_prefixes": [0, 6, 1], "shared_with": [0, 0, 1]}, r"manifest.shared_prefixes\[1\] .*is 6"),
    ({"shared_prefixes": [0, 1, 1], "shared_with": [0, 0, 1], "dynamic_cp": True, "cp": 2},
     "manifest.shared_prefixes .*is set beside topology.dynamic_context"),
    ({"passes": [batchplan.Pass(8, ignore_shared_prefixes=1)], "max_tokens": None},
     r"passes\[0\].ignore_shared_prefixes is 1; must be True or False"),
])
def test_what_cannot_be_shared_is_named(arguments, named):
    with pytest.raises(batchplan.InvalidRequest, match=named):
        batchplan.plan([5, 5, 5], **{"max_tokens": 64, **arguments})


def test_a_pass_may_compute_every_sequence_whole():
    lengths, prompts, groups = stars()
    passes = [batchplan.Pass(4096), batchplan.Pass(4096, "reference", ignore_shared_prefixes=True)]
    plan = batchplan.plan(lengths, dp=2, group_ids=groups, prompt_lengths=prompts, passes=passes)
    sharing, whole = plan.passes
    assert len(sharing.shared_tokens) == len(lengths) and len(whole.shared_tokens) == 0
    assert sharing.metrics.laid_tokens > 0 == whole.metrics.laid_tokens


def test_what_is_shared_goes_wherever_the_plan_goes():
    lengths, prompts, groups = stars()
    plan = batchplan.plan(lengths, group_ids=groups, prompt_lengths=prompts, **OPTIONS)
    read = json.loads(json.dumps(plan.to_dict()))
    assert read["passes"][0]["sharedTokens"] == plan.passes[0].shared_tokens.tolist()
    assert int(read["passes"][0]["metrics"]["laidTokens"]) == plan.metrics.laid_tokens
    copied = pickle.loads(pickle.dumps(plan))
    assert copied.to_dict() == plan.to_dict() and copied.to_html() == plan.to_html()
    (first, *_) = copied.rank(0)
    assert not pickle.loads(pickle.dumps(first)).shared_tokens.flags.writeable


def test_a_report_has_what_a_row_computes():
    """A token at depth d attends to d + 1 tokens, whoever shares it."""
    plan = batchplan.plan([5, 7, 4], max_tokens=16, shared_prefixes=[0, 3, 2], shared_with=[0, 0, 1])
    (one,) = plan.rank(0)
    assert one.indices.tolist() == [0, 1, 2] and one.shared_tokens.tolist() == [0, 3, 2]
    timing = one.timing(1.0)
    assert (timing.tokens, timing.tokens_squared, timing.sequences) == (
        5 + 4 + 2, 25 + (49 - 9) + (16 - 4), 3)
    copies = batchplan.plan([1] * 4, max_tokens=16, shared_prefixes=[0, 1, 1, 1], shared_with=[0] * 4)
    (one,) = copies.rank(0)
    timing = one.timing(1.0)
    assert (timing.tokens, timing.tokens_squared, timing.sequences) == (1, 1, 1)


def test_a_server_and_workers_plan_the_same(server):
    lengths, prompts, groups = stars(groups=9, size=6)
    of_workers = numpy.array_split(numpy.arange(len(lengths)), 4)
    here = batchplan.plan(lengths, group_ids=groups, prompt_lengths=prompts, **OPTIONS)
    with batchplan.Client(server) as client:
        assert client.plan(
            lengths, group_ids=groups, prompt_lengths=prompts, **OPTIONS).fingerprint == here.fingerprint

        def join(worker, rank=None):
            """Its part begins within a group."""
            own = of_workers[worker]
            return client.join(lengths[own], job_id="shared", step=1, worker=worker, world_size=4, rank=rank,
                               group_ids=groups[own], prompt_lengths=prompts[own], **OPTIONS)

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            plans = list(pool.map(join, range(4)))
        assert {plan.fingerprint for plan in plans} == {here.fingerprint}
        for rank in range(2):
            own = join(rank, rank=rank)
            for one, same in zip(own.rank(rank), here.rank(rank), strict=True):
                assert one.shared_tokens.tolist() == same.shared_tokens.tolist()


def test_who_a_worker_shares_with_is_one_of_its_own(server):
    parts = [[5, 7, 4], [6, 6]]
    prefixes, withs = [[0, 3, 2], [0, 6]], [[0, 0, 1], [9, 0]]
    here = batchplan.plan(
        [5, 7, 4, 6, 6], shared_prefixes=[0, 3, 2, 0, 6], shared_with=[0, 0, 1, 0, 3], **OPTIONS)
    with batchplan.Client(server) as client:
        def join(worker, step, own=withs):
            return client.join(parts[worker], job_id="withs", step=step, worker=worker, world_size=2,
                               shared_prefixes=prefixes[worker], shared_with=own[worker], **OPTIONS)

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            plans = list(pool.map(lambda worker: join(worker, 1), range(2)))
        assert {plan.fingerprint for plan in plans} == {here.fingerprint}
        with pytest.raises(batchplan.InvalidRequest) as caught:
            join(1, 2, [[], [0, 3]])
        assert caught.value.field == "request.manifest.shared_with[1]"


def test_a_pool_shares_prompts():
    pool = batchplan.Pool()
    draw = numpy.random.default_rng(5)
    for group in range(6):
        lengths = 600 + draw.integers(1, 400, 4)
        pool.add([(group, int(one)) for one in lengths], lengths, prompt_length=600 * (group != 3))
    gone = pool.discard(lambda item: item[0] == 0 and item[1] % 2 == 1)
    waiting = list(pool)
    batch = pool.take(batchplan.Selection(groups=5, max_overtaking=6), **OPTIONS)
    for rank in range(2):
        for one in batch.plan.rank(rank):
            own = [group for group, _ in batch.of(one)]
            assert one.shared_tokens.tolist() == [
                600 if group == before != 3 else 0 for group, before in zip(own, [None, *own])]
    assert batch.plan.metrics.laid_tokens < batch.plan.metrics.true_tokens
    assert len(batch.taken) + len(pool) == len(waiting) == 24 - len(gone)
    # The last one waits with its prompt.
    assert pool.take(batchplan.Selection(groups=1), **OPTIONS).plan.metrics.laid_tokens > 0


def test_a_pool_refuses_what_it_cannot_share():
    pool = batchplan.Pool()
    with pytest.raises(batchplan.InvalidRequest, match="prompt_length is 8; must be 0 to 7"):
        pool.add(["a", "b"], [9, 7], prompt_length=8)
    pool.add(["a"], [9])
    with pytest.raises(batchplan.InvalidRequest, match="prompt_lengths is set; a pool shares prompts alone"):
        pool.take(batchplan.Selection(groups=1), prompt_lengths=[3], **OPTIONS)
