"""BatchSampler holds a mixture of sources in every global batch."""

import itertools
import json

import numpy
import pytest

torch = pytest.importorskip("torch")

from batchplan.torch import BatchSampler, BatchSizeSchedule, Mixture

BUDGET = 1000


def lengths_of(count, seed=0, median=0.1):
    lengths = numpy.random.default_rng(seed).lognormal(numpy.log(median), 0.8, count) * BUDGET
    return lengths.clip(1, BUDGET).astype(int)


def sources_of(counts, seed=0):
    """So many of each source, in any order."""
    sources = numpy.repeat(numpy.arange(len(counts)), counts)
    numpy.random.default_rng(seed).shuffle(sources)
    return sources


def sampler_of(sources, batch=32, proportions=None, **options):
    options = {"dp": 2, "max_tokens": BUDGET, "seed": 1, "effort": "fast", **options}
    lengths = options.pop("lengths", None)
    lengths = lengths_of(len(sources)) if lengths is None else lengths
    return BatchSampler(lengths, batch, mixture=Mixture(sources, proportions), **options)


def epoch_of(sampler, epoch, sources):
    """The global batches, each of which is planned whole, and how many of each source each has."""
    sampler.set_epoch(epoch)
    batches = []
    for step in range(sampler.steps):
        plan, batch = sampler.plan(step)
        planned = [batch[one.indices] for rank in range(plan.passes[0].data_parallel) for one in plan.rank(rank)]
        assert sorted(numpy.concatenate(planned)) == sorted(batch)
        batches.append(batch)
    every = numpy.concatenate(batches)
    assert len(set(every.tolist())) == len(every)
    counts = numpy.array([numpy.bincount(sources[batch], minlength=sources.max() + 1) for batch in batches])
    return batches, counts


def check_shares(counts, shares):
    """Each batch has its shares, rounded; their sum is never two sequences from them."""
    shares = numpy.array(shares) / sum(shares)
    wanted = counts.sum(1)[:, None] * shares
    assert (numpy.floor(wanted - 1e-9) <= counts).all() and (counts <= numpy.ceil(wanted + 1e-9)).all()
    assert (numpy.abs(counts.cumsum(0) - wanted.cumsum(0)) < 2).all()


@pytest.mark.parametrize("seed", range(40))
def test_the_datasets_proportions_run_out_together(seed):
    random = numpy.random.default_rng(seed)
    counts = random.integers(1, 200, int(random.integers(1, 8)))
    batch = int(random.integers(4, 50))
    sources = sources_of(counts, seed)
    sampler = sampler_of(sources, batch, dp=1)
    for epoch in range(3):
        batches, found = epoch_of(sampler, epoch, sources)
        assert sorted(numpy.concatenate(batches)) == list(range(len(sources)))
        check_shares(found, counts)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("drop_last", [False, True])
def test_given_proportions_end_the_epoch_where_a_source_runs_out(seed, drop_last):
    random = numpy.random.default_rng(seed)
    counts = random.integers(20, 300, int(random.integers(2, 6)))
    shares = random.integers(1, 10, len(counts))
    batch = int(random.integers(8, 50))
    sources = sources_of(counts, seed)
    most = int(min(count * shares.sum() // share for count, share in zip(counts, shares)))
    # Of one full global batch at least.
    batch = min(batch, most)
    sampler = sampler_of(sources, batch, dict(enumerate((shares / 7).tolist())), dp=1, drop_last=drop_last)
    drawn = set()
    for epoch in range(3):
        batches, found = epoch_of(sampler, epoch, sources)
        check_shares(found, shares)
        # No sequence more would be in proportion.
        assert found.sum() == (most // batch * batch if drop_last else most)
        drawn.update(numpy.concatenate(batches).tolist())
    if most < len(sources) and not drop_last:
        # Others come in other epochs.
        assert len(drawn) > most


def test_sources_have_names_and_proportions_any_unit():
    names = numpy.array(["web", "code", "math"])
    sources = sources_of([600, 300, 100])
    for shares in ({"web": 0.7, "code": 0.2, "math": 0.1}, {"web": 70, "code": 20, "math": 10}):
        for given in (names[sources], names[sources].tolist()):
            sampler = sampler_of(given, 30, shares, lengths=lengths_of(1000))
            batches, found = epoch_of(sampler, 0, sources)
            assert found.tolist() == [[21, 6, 3]] * 28 + [[12, 3, 2]]  # 600 / 0.7 are 857 sequences


def test_one_of_many_waits_its_turn():
    """A source of fewer sequences than batches has one in some of them, spread evenly."""
    sources = sources_of([470, 10])
    _, found = epoch_of(sampler_of(sources, 16), 0, sources)
    places = numpy.flatnonzero(found[:, 1])
    assert len(places) == 10 and (numpy.diff(places) == 3).all()


@pytest.mark.parametrize("options", [
    {"microbatches_per_step": 4}, {"drop_last": True}, {"mini_batch_size": 8}, {"dp": 8, "allow_empty_microbatches": True},
    {"shuffle": False}, {"overlong": "drop", "max_tokens": 600}, {"synchronization": "accumulated"}, {"largest_first": True},
])
def test_with_other_options_the_shares_hold(options):
    sources = sources_of([300, 120, 60])
    sampler = sampler_of(sources, 32, **options)
    lengths = lengths_of(480)
    kept = lengths <= options.get("max_tokens", BUDGET)
    shares = numpy.bincount(sources[kept])
    for epoch in range(3):
        batches, found = epoch_of(sampler, epoch, sources)
        check_shares(found, shares)
        assert found.sum() == kept.sum()


@pytest.mark.parametrize("kind", ["long", "fixed"])
def test_what_can_not_be_divided_exchanges_sequences_of_the_same_source(kind):
    """Batches of a size, in which long sequences meet; exchanged so that each has its shares still."""
    sources = sources_of([200, 100, 20])
    if kind == "fixed":
        lengths, options = lengths_of(320, 0, 0.3), {"microbatches_per_step": 4, "dp": 2, "max_tokens": 1300}
        batch = 20
    else:
        lengths, options, batch = numpy.where(numpy.arange(320) % 3, 600, 350), {"dp": 8}, 20
    sampler = sampler_of(sources, batch, lengths=lengths, **options)
    arranged = 0
    for epoch in range(6):
        _, found = epoch_of(sampler, epoch, sources)
        check_shares(found, [200, 100, 20])
        arranged += sampler._batches.is_arranged(epoch)
    assert arranged


def test_groups_stay_together_in_their_shares():
    random = numpy.random.default_rng(0)
    group_ids = numpy.repeat(random.permutation(120), 4)
    sources = numpy.array([0] * 70 + [1] * 40 + [2] * 10)[group_ids]
    for shuffle, interleaved in ((True, False), (False, False), (False, True), (True, True)):
        order = random.permutation(480) if interleaved else numpy.arange(480)
        sampler = sampler_of(sources[order], 24, group_ids=group_ids[order], groups="same_rank", shuffle=shuffle)
        for epoch in range(3):
            batches, found = epoch_of(sampler, epoch, sources[order])
            assert (found % 4 == 0).all() and found.sum() == 480
            check_shares(found // 4, [70, 40, 10])
            for batch in batches:
                assert (numpy.unique(group_ids[order][batch], return_counts=True)[1] == 4).all()
    # Torn, they may be anything.
    epoch_of(sampler_of(sources, 30, group_ids=numpy.arange(480) // 7, groups="ignore"), 0, sources)


@pytest.mark.parametrize("options, named", [
    ({"group_ids": numpy.arange(480) // 7}, "mixture.sources are several in one of group_ids"),
    ({"group_ids": numpy.arange(480) // 5, "of_groups": True}, "batch_size is 24; must be a multiple of 5, the sequences of each group"),
    ({"group_ids": numpy.repeat(numpy.arange(160), [2, 4] * 80), "of_groups": True},
     "group_ids has groups of 2 to 4 sequences, which stay together: with a mixture all must be alike in size"),
])
def test_groups_that_can_not_hold_the_shares_are_refused(options, named):
    sources = sources_of([300, 120, 60])
    if options.pop("of_groups", None):
        sources = options["group_ids"] % 3
    with pytest.raises(ValueError, match=named):
        sampler_of(sources, 24, groups="same_rank", **options)


@pytest.mark.parametrize("taken", [0, 5, 20])
def test_a_state_goes_on(taken):
    sources = sources_of([300, 120, 60])
    whole = sampler_of(sources)
    expected = list(whole) + list(whole)
    sampler = sampler_of(sources)
    begun = list(itertools.islice(sampler, taken))
    state = json.loads(json.dumps(sampler.state_dict()))
    resumed = sampler_of(sources)
    resumed.load_state_dict(state)
    assert begun + list(resumed) + list(resumed) == expected
    other = sources.copy()
    other[[0, -1]] = (other[0] + 1) % 3, other[-1]
    for changed, named in ((other, "sources are not those of when"),):
        with pytest.raises(ValueError, match=named):
            sampler_of(changed).load_state_dict(state)
    with pytest.raises(ValueError, match=r"proportions is \{'0': 5, '1': 2, '2': 1\}; it was None when"):
        sampler_of(sources, 32, {0: 5, 1: 2, 2: 1}).load_state_dict(state)
    with pytest.raises(ValueError, match="mixture is unset; it was set when"):
        BatchSampler(lengths_of(480), 32, dp=2, max_tokens=BUDGET, seed=1, effort="fast").load_state_dict(state)


@pytest.mark.parametrize("loading", [1, 2, 4, 8])
@pytest.mark.parametrize("saved", [1, 2, 4, 8])
def test_a_state_goes_on_with_another_dp(saved, loading):
    """The last global batch has three sequences, which eight ranks and four share with the one before."""
    sources = sources_of([303, 120, 60])
    sampler = sampler_of(sources, 32, dp=saved)
    batches, _ = epoch_of(sampler, 0, sources)
    resumed = sampler_of(sources, 32, dp=loading)
    resumed.load_state_dict({**sampler.state_dict(), "step": 7})
    left = [resumed.plan(step)[1] for step in range(7, resumed.steps)]
    assert sorted(numpy.concatenate(left)) == sorted(numpy.concatenate(batches[7:]))
    counts = numpy.array([numpy.bincount(sources[one], minlength=3) for one in left])
    check_shares(counts, [303, 120, 60])


def test_it_holds_in_a_batch_size_that_grows():
    sources = sources_of([300, 120, 60])
    sampler = sampler_of(sources, BatchSizeSchedule([(0, 16), (600, 48), (1000, 100)]))
    for epoch in range(4):
        batches, found = epoch_of(sampler, epoch, sources)
        check_shares(found, [300, 120, 60])
        assert found.sum() == 480
    assert [len(one) for one in batches] == [100] * 4 + [80]


def test_ranks_agree():
    sources = sources_of([300, 120, 60])
    of_ranks = [list(sampler_of(sources, rank=rank, dp=4, microbatches_per_step=2)) for rank in range(4)]
    assert {len(one) for one in of_ranks} == {2 * 15}
    assert sorted(index for rank in of_ranks for batch in rank for index in batch) == list(range(480))


@pytest.mark.parametrize("mixture, options, named", [
    ([0, 1], {}, r"mixture is \[0, 1\]; must be a batchplan.torch.Mixture"),
    (Mixture([0, 1]), {}, r"mixture.sources has shape \(2,\); must be \(40,\), one a sequence"),
    (Mixture([0.5] * 40), {}, "mixture.sources has dtype float64; must be of whole numbers or names"),
    (Mixture([[0]] * 40), {}, r"mixture.sources has shape \(40, 1\)"),
    (Mixture([0, 1] * 20, [1, 2]), {}, r"mixture.proportions is \[1, 2\]; must be a mapping"),
    (Mixture([0, 1] * 20, {0: 1}), {}, "mixture.proportions has no 1, which sequences have"),
    (Mixture([0, 1] * 20, {0: 1, 1: 1, 2: 1}), {}, "mixture.proportions has 2, which no sequence has"),
    (Mixture([0, 1] * 20, {0: 1, 1: 0}), {}, r"mixture.proportions\[1\] is 0.0; must be at least 1e-06"),
    (Mixture([0, 1] * 20, {0: 1, 1: float("nan")}), {}, r"mixture.proportions\[1\] is nan; must be"),
    (Mixture([0, 1] * 20, {0: 1, 1: "x"}), {}, r'mixture.proportions\[1\] is "x"; must be a number'),
    (Mixture([0, 1] * 20), {"window": 2}, "window is 2, of global batches that exchange sequences, and mixture is set"),
    (Mixture([0] * 39 + [1], {0: 1, 1: 1}), {"drop_last": True}, "lengths has 2 entries to plan, which make no global batch"),
])
def test_a_mixture_that_can_not_be_is_refused(mixture, options, named):
    with pytest.raises(ValueError, match=named):
        BatchSampler([5] * 40, 8, max_tokens=BUDGET, mixture=mixture, **options)
