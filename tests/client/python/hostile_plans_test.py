"""Plan files whose checksum is right and whose content no planner wrote."""

import json
import math
import resource
import struct

import batchplan
import numpy
import pytest
from batchplan import _plan_file

BUDGET = 4096
LENGTHS = [300, 20, 4000, 77, 1500, 1500, 9, 640]

# Numbers of fields in proto/batchplan/v1.
PLAN, REQUEST = 1, 4
PASSES, EXCLUDED, COST_MODEL_USED, DEFERRED = 1, 2, 6, 7
SEQUENCE_INDEX, MICROBATCH_OFFSETS, MICROBATCHES_PER_RANK, ROW_WIDTHS, SEQUENCE_LENGTHS, LENGTH_MULTIPLE = range(2, 8)
METRICS, ITEM_RANKS = 8, 12
MANIFEST, LENGTHS_FIELD, ITEMS = 5, 1, 9


def varint(value):
    data = bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    return bytes(data) + bytes([value])


def read_varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


def fields(data):
    """Number, kind and value of each field of a message of Protobuf."""
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        if key & 7 == 0:
            value, at = read_varint(data, at)
        else:
            size, at = (8, at) if key & 7 == 1 else read_varint(data, at)
            value, at = data[at:at + size], at + size
        yield key >> 3, key & 7, value


def field(number, kind, value):
    content = varint(value) if kind == 0 else value if kind == 1 else varint(len(value)) + value
    return varint(number << 3 | kind) + content


def changed(message, path, change):
    """The message with change(value) in place of its value at this path, in every message of the path."""
    number, *rest = path
    data, found = b"", False
    for own, kind, value in fields(message):
        if own == number:
            found = True
            value = changed(value, rest, change) if rest else change(value)
        data += field(own, kind, value)
    assert found, path
    return data


def numbers(change):
    """Changes an array of numbers."""
    def of_bytes(data):
        values, at = [], 0
        while at < len(data):
            value, at = read_varint(data, at)
            values.append(value)
        return b"".join(map(varint, change(values)))

    return of_bytes


HUGE = 2**32 - 1


def use(plan):
    """Asks all that a plan is asked; some of it may be refused."""
    def ask(question):
        try:
            question()
        except (ValueError, batchplan.Error):
            pass

    def micro_batches():
        for one in plan.passes:
            for rank in one._ranks:
                for micro_batch in one.rank(rank):
                    micro_batch.loads, micro_batch.dealt
                    ask(lambda: micro_batch.timing(1.0, stage=0))
                    ask(lambda: micro_batch.cu_seqlens_padded)

    hash(plan), repr(plan), plan.to_dict(), plan == plan
    ask(lambda: plan.restore(numpy.arange(len(plan.passes[0].sequence_index))))
    micro_batches()
    ask(plan.explain)
    ask(plan.to_html)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A plan with items of a dealt load, which has all kinds of arrays."""
    path = tmp_path_factory.mktemp("plans") / "step.plan"
    items = {"images": [numpy.array([5.0, 6.0])] * len(LENGTHS)}
    cost = batchplan.CostModel(1.0, loads=[batchplan.LoadCost("images", 2.0, dealt=True)])
    plan = batchplan.plan(LENGTHS, dp=2, max_tokens=BUDGET, items=items, cost=cost)
    use(plan)
    plan.save(path)
    return path


def first_is(value):
    return numbers(lambda values: [value, *values[1:]])


@pytest.fixture
def scarce_memory():
    """A gibibyte more than the process has."""
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def rewritten(saved, tmp_path, path, change):
    line, message = _plan_file.from_bytes(saved.read_bytes())
    own = {name: line[name] for name in ("where", "ranks", "rank", "own_part")}
    hostile = tmp_path / "hostile.plan"
    hostile.write_bytes(_plan_file.to_bytes(changed(message, path, change), **own))
    return hostile


@pytest.mark.parametrize("path, change, told", [
    ([PLAN, PASSES, ITEM_RANKS, 2], first_is(2), "item_ranks of .* has rank 2; must be below 2"),
    ([PLAN, PASSES, ITEM_RANKS, 2], first_is(HUGE), "item_ranks of .* has rank 4294967295; must be below 2"),
    # -1, in ten bytes.
    ([PLAN, PASSES, ITEM_RANKS, 2], first_is(2**64 - 1), "item_ranks of .* has rank 4294967295; must be below 2"),
    ([PLAN, PASSES, ITEM_RANKS, 2], numbers(lambda ranks: ranks[1:]), "has 15 entries; must have 16"),
    ([PLAN, PASSES, ITEM_RANKS, 1], lambda _: b"patches", '"patches" of .* has 16 entries; must have 0'),
    ([PLAN, PASSES, SEQUENCE_INDEX], first_is(8), "it has sequence 8; must be below 8"),
    ([PLAN, PASSES, SEQUENCE_INDEX], first_is(HUGE), "it has sequence 4294967295; must be below 8"),
    ([PLAN], lambda plan: plan + field(DEFERRED, 2, varint(HUGE)), "it has sequence 4294967295; must be below 8"),
    ([PLAN], lambda plan: plan + field(EXCLUDED, 2, field(1, 0, HUGE) + field(2, 0, 5) + field(3, 0, 2)),
     "it has sequence 4294967295; must be below 8"),
    *(([PLAN, PASSES, number], first_is(value), "its arrays do not fit each other")
      for number in (MICROBATCH_OFFSETS, MICROBATCHES_PER_RANK) for value in (9, HUGE)),
    ([PLAN, PASSES, LENGTH_MULTIPLE], lambda _: 0, "its arrays do not fit each other"),
    *(([PLAN, PASSES, METRICS], lambda data, value=value: data + field(8, 1, struct.pack("<d", value)), "no plan that save")
      for value in (math.nan, math.inf)),
    ([PLAN, PASSES], lambda _: b"", "its arrays do not fit each other"),
    ([PLAN], lambda _: b"", "the answer has no pass"),
    ([PLAN], lambda plan: plan + next(field(*one) for one in fields(plan) if one[0] == PASSES), "it has 2 passes; must have 1"),
    ([REQUEST, MANIFEST, ITEMS, 2], first_is(8), "of sequence 8; there are 8"),
    ([REQUEST, MANIFEST, ITEMS, 2], first_is(HUGE), "of sequence 4294967295; there are 8"),
    ([REQUEST, MANIFEST, ITEMS, 2], numbers(lambda sequences: sequences[1:]), "same length"),
    ([REQUEST, MANIFEST, LENGTHS_FIELD], numbers(lambda lengths: lengths[1:]), "of sequence 7; there are 7"),
])
def test_what_no_planner_wrote_is_refused(saved, tmp_path, scarce_memory, path, change, told):
    with pytest.raises(ValueError, match=told):
        batchplan.Plan.load(rewritten(saved, tmp_path, path, change))


@pytest.mark.parametrize("path, change", [
    ([PLAN, PASSES, SEQUENCE_INDEX], lambda _: varint(0) * len(LENGTHS)),
    *(([PLAN, PASSES, number], first_is(value)) for number in (ROW_WIDTHS, SEQUENCE_LENGTHS) for value in (0, HUGE)),
    ([PLAN, PASSES, LENGTH_MULTIPLE], lambda _: HUGE),
    ([PLAN, PASSES, METRICS], lambda _: b""),
    *(([REQUEST, MANIFEST, ITEMS, 3], lambda data, value=value: struct.pack("<d", value) + data[8:])
      for value in (math.nan, math.inf, -1.0, 1e308)),
    ([REQUEST, MANIFEST, LENGTHS_FIELD], first_is(HUGE)),
    *(([PLAN, COST_MODEL_USED, 1], lambda _, value=value: struct.pack("<d", value)) for value in (math.nan, math.inf, -1.0)),
    ([PLAN, COST_MODEL_USED], lambda _: b""),
])
def test_numbers_that_no_planner_wrote_do_no_harm(saved, tmp_path, scarce_memory, path, change):
    use(batchplan.Plan.load(rewritten(saved, tmp_path, path, change)))


@pytest.mark.parametrize("entries, told", [
    ({"ranks": 0}, "no plan for 0 ranks"), ({"ranks": HUGE}, "no plan for 4294967295 ranks"),
    *(({"ranks": ranks}, "ranks is .*; must be 0 to 4294967295") for ranks in (-1, 2**80, 1.5, None, [2], True)),
    *(({"rank": rank}, "rank is .* and ranks 2; rank must be null, or 0 to 4294967295") for rank in (-1, 2, 2**80, "1")),
    *(({"own_part": part}, "own_part is .*; must be null or where") for part in ([], [0, 2**80], [5, "x"], [-3, -1], 3)),
    *(({"where": where}, "where is .*; must be text") for where in (3, None, ["x"])),
])
def test_a_first_line_that_no_planner_wrote_is_refused(saved, tmp_path, scarce_memory, entries, told):
    line, message = _plan_file.from_bytes(saved.read_bytes())
    hostile = tmp_path / "hostile.plan"
    hostile.write_bytes(json.dumps(line | entries).encode() + b"\n" + message)
    with pytest.raises(ValueError, match=told):
        batchplan.Plan.load(hostile)


# Where one worker's rank is all that is known, positions may be anywhere in the batch: as far as the last of 2^32.
def test_items_of_far_sequences_take_no_memory_for_those_between(scarce_memory):
    from batchplan._pass_plan import PassPlan

    one = PassPlan.__new__(PassPlan)
    one.sequence_index = numpy.array([HUGE, 7], numpy.uint32)
    one.microbatch_offsets = numpy.array([0, 1, 2], numpy.uint32)
    one.microbatches_per_rank = numpy.array([2], numpy.uint32)
    one.item_ranks = {"images": numpy.array([0, 1, 0], numpy.uint32)}
    one._item_sequences = {"images": numpy.array([3, 7, HUGE], numpy.uint32)}
    one._ranks, one._is_slice = range(1), True
    dealing = one._dealings["images"]
    assert [dealing.of(place).sent.tolist() for place in range(2)] == [[2], [1]]
