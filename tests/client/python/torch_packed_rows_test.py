"""BatchSampler deals rows that were packed beforehand by what the sequences in them cost."""

import numpy
import pytest

torch = pytest.importorskip("torch")

import batchplan
from batchplan import CostModel, Pass
from batchplan.torch import BatchSampler
from batchplan.torch._row_costs import PackedRows, packed_rows, rows_of_positions

WIDTH, RANKS, SLOTS = 8192, 4, 3
COST = CostModel(1.0, 1 / 4096, per_sequence=3.0)


def rows_of(count=100, seed=0):
    """Rows of one width, of sequences that are ever shorter."""
    random = numpy.random.default_rng(seed)
    rows = []
    for _ in range(count):
        pieces = int(random.integers(2, 8))
        cuts = numpy.sort(random.choice(numpy.arange(1, WIDTH), pieces - 1, replace=False))
        rows.append(numpy.diff([0, *cuts, WIDTH]).tolist())
    return rows


def costs_of(rows, cost=COST):
    return numpy.array([cost.of_sequences(row).sum() for row in rows])


def samplers_of(rows, batch_size=RANKS * SLOTS, **options):
    options = {"dp": RANKS, "max_tokens": WIDTH, "cost": COST, "microbatches_per_step": SLOTS, "seed": 1, **options}
    return [BatchSampler(rows, batch_size, rank=rank, **options) for rank in range(RANKS)]


def slots_of(samplers):
    """[slots][ranks] of micro-batches."""
    return list(zip(*map(list, samplers)))


def step_times(rows, slots, accumulated=False):
    """Of each global batch."""
    costs = costs_of(rows)
    times = numpy.array([[costs[one].sum() for one in slot] for slot in slots]).reshape(-1, SLOTS, RANKS)
    return times.sum(1).max(-1) if accumulated else times.max(-1).sum(-1)


def test_each_row_comes_once_an_epoch_in_micro_batches_of_one():
    rows = rows_of(96)
    samplers = samplers_of(rows)
    for epoch in range(2):
        slots = slots_of(samplers)
        assert len(slots) == 96 // RANKS and {len(one) for slot in slots for one in slot} == {1}
        assert sorted(one[0] for slot in slots for one in slot) == list(range(96))
    assert samplers[0].epoch == 2


def test_rows_of_like_cost_meet_where_ranks_wait():
    rows = rows_of(240)
    slots = slots_of(samplers_of(rows, synchronization="lockstep"))
    sorted_costs = numpy.sort(costs_of(rows)[numpy.array(slots)].reshape(-1, SLOTS * RANKS))
    # No order of a batch takes less: its costs in turn, of which each slot lasts as long as its last.
    best = sorted_costs.reshape(-1, SLOTS, RANKS)[..., -1].sum(-1)
    numpy.testing.assert_allclose(step_times(rows, slots), best, rtol=1e-5)
    order = numpy.random.default_rng(5).permutation(240).reshape(-1, RANKS, 1)
    assert step_times(rows, order).sum() > 1.08 * best.sum()


def test_ranks_are_alike_in_cost_where_they_wait_at_the_end():
    rows = rows_of(240)
    slots = slots_of(samplers_of(rows, synchronization="accumulated"))
    even = costs_of(rows)[numpy.array(slots)].reshape(-1, SLOTS * RANKS).sum(-1) / RANKS
    assert (step_times(rows, slots, accumulated=True) / even).mean() < 1.02
    order = numpy.random.default_rng(5).permutation(240).reshape(-1, RANKS, 1)
    assert step_times(rows, order, accumulated=True).sum() > 1.1 * even.sum()


def test_a_micro_batch_has_as_many_rows_as_its_budget_holds():
    rows = rows_of(96)
    for options, most in (
        ({"max_tokens": 3 * WIDTH - 1}, 2),
        ({"max_tokens": None, "passes": [Pass(100 * WIDTH, max_sequences=2)]}, 2),
        ({"max_tokens": None, "passes": [Pass(WIDTH, max_sequences=2)]}, 1),
    ):
        batch = RANKS * SLOTS * most
        sizes = [len(one) for slot in slots_of(samplers_of(rows, batch, **options)) for one in slot]
        assert max(sizes) == most and sum(sizes) == 96
    # A budget of more tokens than a row may have.
    assert {len(one) for one in BatchSampler(rows[:4], 4, max_tokens=2**31 - 1)} == {4}
    without_number = samplers_of(rows, 48, max_tokens=2 * WIDTH, microbatches_per_step=None)
    sizes = [len(one) for slot in slots_of(without_number) for one in slot]
    assert max(sizes) == 2 and sum(sizes) == 96


def test_a_row_is_a_sequence_of_its_width_and_a_load_of_its_cost():
    rows = rows_of(40)
    for cost, own in ((COST, COST), (None, batchplan.DEFAULT_COST), (CostModel(0.0, per_microbatch=2.0), CostModel(0.0))):
        options = {} if cost is None else {"cost": cost}
        plan, batch = BatchSampler(rows, 16, dp=2, max_tokens=2 * WIDTH, **options).plan(0)
        costs = costs_of([rows[place] for place in batch], own)
        slots = list(zip(*(plan.rank(rank) for rank in range(2))))
        taken = sum(max(costs[one.indices].sum() for one in slot) for slot in slots)
        taken += len(slots) * (cost.per_microbatch if cost else 0)
        assert plan.metrics.predicted_step_time == pytest.approx(taken)
        assert all(one.width == len(one) * WIDTH for slot in slots for one in slot)
        assert plan.metrics.loads["cost"].mean == pytest.approx(costs.sum() / plan.passes[0].row_widths.size)


def test_rows_have_loads_and_kinds_beside_their_cost():
    rows = rows_of(96)
    patches = numpy.random.default_rng(3).integers(0, 700, 96)
    kinds = (patches > 300).astype(int)
    options = {"loads": {"patches": patches}, "kinds": kinds, "max_tokens": None, "microbatches_per_step": None,
               "cost": CostModel(1.0, loads={"patches": 2.0}),
               "passes": [Pass(3 * WIDTH, limits={"patches": 1000}, kinds_per_slot="alike")]}
    slots = slots_of(samplers_of(rows, 48, **options))
    assert sorted(sum((one for slot in slots for one in slot), [])) == list(range(96))
    for slot in slots:
        assert len({kinds[place] for one in slot for place in one}) == 1
        assert all(patches[one].sum() <= 1000 and len(one) <= 3 for one in slot)
    plan, batch = samplers_of(rows, 48, **options)[0].plan(0)
    costs = costs_of([rows[place] for place in batch], CostModel(1.0)) + 2.0 * patches[batch]
    slots = list(zip(*(plan.rank(rank) for rank in range(RANKS))))
    taken = sum(max(costs[one.indices].sum() for one in slot) for slot in slots)
    assert plan.metrics.predicted_step_time == pytest.approx(taken)
    with pytest.raises(ValueError, match='loads has "cost", as what rows cost is called'):
        samplers_of(rows, loads={"cost": patches})
    state = samplers_of(rows, 48, **options)[0].state_dict()
    samplers_of(rows, 48, **options)[0].load_state_dict(state)
    with pytest.raises(ValueError, match="loads are not those of when the state was saved"):
        samplers_of(rows, 48, **{**options, "loads": {"patches": patches // 2}})[0].load_state_dict(state)


@pytest.mark.parametrize("kind", [
    lambda rows: rows, tuple, lambda rows: [numpy.array(one, numpy.int32) for one in rows],
    lambda rows: numpy.array([*map(numpy.array, rows), None], object)[:-1],
    lambda rows: [torch.tensor(one) for one in rows],
])
def test_rows_are_lists_of_any_kind(kind):
    rows = rows_of(24)
    assert list(samplers_of(kind(rows))[1]) == list(samplers_of(rows)[1])


def test_padding_counts_for_the_budget_and_costs_nothing():
    padded = PackedRows(numpy.array([4, 4] * 8), numpy.full(8, 2), numpy.full(8, 10))
    assert {len(one) for one in BatchSampler(padded, 4, max_tokens=19)} == {1}
    assert {len(one) for one in BatchSampler(padded, 4, max_tokens=20)} == {2}
    with pytest.raises(ValueError, match=r"lengths\[0\] has 10 tokens, a row; max_tokens is 9"):
        BatchSampler(padded, 4, max_tokens=9)
    assert padded.costs(COST).tolist() == packed_rows([[4, 4]] * 8).costs(COST).tolist()


def test_rows_that_do_not_fill_the_last_batch():
    rows = rows_of(100)
    with pytest.raises(ValueError, match="drop_last=True leaves out"):
        samplers_of(rows)
    with pytest.raises(ValueError, match=r"4 more than a multiple of 12, .* which max_sequences 1 is too small for"):
        samplers_of(rows, microbatches_per_step=None, dp=12)
    dropped = [one for slot in slots_of(samplers_of(rows, drop_last=True)) for one in slot]
    assert len(sum(dropped, [])) == 96
    empty = [one for slot in slots_of(samplers_of(rows, allow_empty_microbatches=True)) for one in slot]
    assert sorted(sum(empty, [])) == list(range(100)) and len(empty) == 9 * RANKS * SLOTS
    # Where two rows may share a micro-batch, the last batches share what there is.
    shared = [one for slot in slots_of(samplers_of(rows, 2 * RANKS * SLOTS, max_tokens=2 * WIDTH)) for one in slot]
    assert sorted(sum(shared, [])) == list(range(100)) and all(shared)


def test_a_sampler_goes_on_only_with_the_same_rows_and_costs():
    rows = rows_of(48)
    sampler = samplers_of(rows)[2]
    expected = list(sampler) + list(sampler)
    sampler = samplers_of(rows)[2]
    begun = [next(iter(sampler)) for _ in range(1)]
    resumed = samplers_of(rows)[2]
    resumed.load_state_dict(sampler.state_dict())
    assert begun + list(resumed) + list(resumed) == expected
    state = sampler.state_dict()
    other = [row[::-1] if len(row) > 1 else [row[0] - 1, 1] for row in rows]
    with pytest.raises(ValueError, match="lengths are not those of when the state was saved"):
        samplers_of(other)[2].load_state_dict(state)
    with pytest.raises(ValueError, match="cost_model.per_sequence is 2.0; it was 3.0"):
        samplers_of(rows, cost=CostModel(1.0, 1 / 4096, per_sequence=2.0))[2].load_state_dict(state)


@pytest.mark.parametrize("rows, options, message", [
    ([[5], 3], {}, r"lengths\[1\] is 3; must be a list of whole numbers, .* as lengths\[0\] is a list"),
    ([[5], [1.5]], {}, r"lengths\[1\] is \[1.5\]; must be a list of whole numbers"),
    ([[5], [[1, 2], [3]]], {}, r"lengths\[1\] is \[\[1, 2\], \[3\]\]; must be a list of whole numbers"),
    ([[5], []], {}, r"lengths\[1\] has no sequence"),
    ([[5], [4, 0]], {}, r"lengths\[1\]\[1\] is 0; must be at least 1"),
    ([[5], [2**31]], {}, r"lengths\[1\]\[0\] is 2147483648; must be at most 2147483647"),
    ([[5], [2**30, 2**30]], {}, r"lengths\[1\] has 2147483648 tokens; must be at most"),
    ([[5], [WIDTH, 1]], {}, r"lengths\[1\] has 8193 tokens, a row; max_tokens is 8192"),
    ([[5]] * 8, {"cp": 2}, "cp is 2, and rows packed beforehand are dealt among data-parallel ranks"),
    ([[5]] * 8, {"overlong": "drop"}, "overlong is 'drop', and rows packed beforehand"),
    ([[5]] * 8, {"preset": "verl"}, 'preset is "verl", and rows packed beforehand'),
    ([[5]] * 8, {"cost": "fitted"}, 'cost is "fitted", and rows packed beforehand'),
    ([[5]] * 8, {"cost": CostModel(1.0, exchange=((0, 1.0),))}, "cost.exchange is"),
    ([[5]] * 8, {"cost": CostModel(-1.0)}, "cost_model.per_token .*is -1"),
    ([[5]] * 8, {"max_tokens": None, "passes": [Pass(9, scan="optimal")]}, r"passes\[0\].scan is 'optimal', and rows"),
    ([[5]] * 8, {"max_tokens": None, "passes": [Pass(9), Pass(9)]}, "passes has 2 entries, and rows"),
    ([[5]] * 8, {"max_tokens": None, "passes": [Pass(9, max_sequences=-1)]}, r"max_sequences is -1; must be"),
    ([[5]] * 8, {"max_tokens": None}, "max_tokens or passes is needed"),
])
def test_what_can_not_be_dealt_is_refused_by_name(rows, options, message):
    with pytest.raises(ValueError, match=message):
        BatchSampler(rows, 8, **{"max_tokens": WIDTH, "dp": 2, **options})


def test_sequences_of_rows_are_found_in_their_positions():
    rows = [[0, 1, 2, 0, 1, 0, 0, 0], [0, 1, 2, 3], [0, 0, 1], [0], [0, 0], [7, 8, 0, 1, 0]]
    positions, widths = numpy.concatenate(rows), numpy.array([len(row) for row in rows])
    lengths, counts = rows_of_positions(positions, widths)
    assert counts.tolist() == [2, 1, 2, 1, 1, 2]
    assert lengths.tolist() == [3, 2, 4, 1, 2, 1, 1, 2, 2]
