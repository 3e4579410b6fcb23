"""Plans that are saved, loaded, pickled and compared."""

import concurrent.futures
import copy
import json
import pickle
import threading

import batchplan
import numpy
import pytest

BUDGET = 4096


def random_request(seed):
    """Lengths and options, with a random choice of what plans can have."""
    draw = numpy.random.default_rng(seed)
    count = 12 * int(draw.integers(4, 10))
    lengths = numpy.clip(draw.lognormal(5.5, 1.2, count), 1, BUDGET).astype(numpy.uint32)
    options = {"dp": int(draw.integers(1, 5)), "allow_empty_microbatches": True, "seed": int(draw.integers(9))}
    first = {"name": "train"}
    kind = seed % 8
    if kind == 0:
        options.update(loads={"patches": draw.integers(0, 500, count).astype(float), "frames": draw.random(count)})
        options["cost"] = batchplan.CostModel(1.0, 1e-4, loads=[batchplan.LoadCost("patches", 0.5, separate=True)])
        first["limits"] = {"patches": 4000.0}
    elif kind == 1:
        options["items"] = {"images": [draw.integers(1, 90, draw.integers(0, 3)).astype(float) for _ in range(count)]}
        options["cost"] = batchplan.CostModel(1.0, loads=[batchplan.LoadCost("images", 2.0, dealt=True)])
    elif kind == 2:
        options.update(kinds=draw.integers(0, 2, count))
        first["kinds_per_slot"] = "together"
    elif kind == 3:
        groups = numpy.arange(count) // 4
        prompts = numpy.minimum.reduceat(lengths, numpy.arange(0, count, 4))[groups] // 2
        options.update(group_ids=groups, prompt_lengths=prompts)
    elif kind == 4:
        options.update(group_ids=numpy.arange(count) // 3, groups="same_mini_batch", ages=draw.integers(0, 6, count))
        options["selection"] = batchplan.Selection(groups=count // 6, max_age=9, max_overtaking=8)
    elif kind == 5:
        options.update(pp=2, pipeline=batchplan.Pipeline(stage_shares=[1, 1.5], transfer=3.0), tp=2, sequence_parallel=True)
    elif kind == 6:
        options.update(dp=2, cp=2, dynamic_cp=True)
    else:
        options.update(ranks=draw.integers(0, options["dp"], count), mini_batch_size=count // 2)
        lengths[0] = 2 * BUDGET
        options["overlong"] = "drop"
    passes = [batchplan.Pass(BUDGET, **first)]
    if draw.random() < 0.7:
        passes.append(batchplan.Pass(2 * BUDGET, "scores", ignore_mini_batches=True, forward_only=True))
    elif kind == 2:
        passes = [batchplan.Pass(BUDGET, scan="optimal", **first)]
    return lengths, {**options, "passes": passes}


def assert_same(plan, other):
    """By all that can be asked of them, and not by == alone."""
    assert other == plan and not other != plan and hash(other) == hash(plan)
    assert other.to_dict() == plan.to_dict() and repr(other) == repr(plan)
    assert other.metrics == plan.metrics and other.decisions == plan.decisions
    assert other.excluded == plan.excluded and other.fingerprint == plan.fingerprint
    assert other.planner_version == plan.planner_version and other.planning_seconds == plan.planning_seconds
    assert other.deferred.tolist() == plan.deferred.tolist()
    assert {name: one.tolist() for name, one in other.item_sequences.items()} == {
        name: one.tolist() for name, one in plan.item_sequences.items()}
    for own, others in zip(plan.passes, other.passes, strict=True):
        assert own == others and hash(own) == hash(others)
        for rank in own._ranks:
            for one, same in zip(own.rank(rank), others.rank(rank), strict=True):
                assert vars(one).keys() == vars(same).keys()
                assert not same.indices.flags.writeable
                assert one.indices.tolist() == same.indices.tolist() and one.loads == same.loads
                assert one.cu_seqlens_padded.tolist() == same.cu_seqlens_padded.tolist()
                assert one.timing(1.0, stage=0) == same.timing(1.0, stage=0)
                assert one.dealt.keys() == same.dealt.keys()
                for load, items in one.dealt.items():
                    assert items.sent.tolist() == same.dealt[load].sent.tolist()
                    if items.received is not None:
                        assert items.received.tolist() == same.dealt[load].received.tolist()


@pytest.fixture
def saved(tmp_path):
    def load(plan):
        path = tmp_path / "step.plan"
        plan.save(path)
        return batchplan.Plan.load(path)

    return load


@pytest.mark.parametrize("seed", range(48))
def test_what_is_loaded_is_what_was_saved(seed, saved):
    lengths, options = random_request(seed)
    plan = batchplan.plan(lengths, **options)
    for other in (saved(plan), saved(saved(plan)), pickle.loads(pickle.dumps(plan)), copy.deepcopy(plan)):
        assert_same(plan, other)
        assert other.to_html() == plan.to_html()
        for number in range(len(plan.passes)):
            assert other.explain(number) == plan.explain(number)
        trained = len(plan.passes[0].sequence_index)
        assert other.restore(numpy.arange(trained)).tolist() == plan.restore(numpy.arange(trained)).tolist()
    assert batchplan.plan(lengths.tolist(), **options) == plan
    assert plan not in [batchplan.plan(one, **of) for one, of in map(random_request, (seed + 1, seed + 8))]


def test_the_kinds_of_plans_are_all_there():
    plans = [batchplan.plan(lengths, **options) for lengths, options in map(random_request, range(48))]
    assert any(len(plan.passes) > 1 for plan in plans)
    for name in ("item_ranks", "context_sizes", "shared_tokens"):
        assert any(len(getattr(one, name)) for plan in plans for one in plan.passes)
    assert any(len(plan.deferred) for plan in plans) and any(len(plan.excluded) for plan in plans)
    assert any(one.padded for plan in plans for one in plan.passes)


LENGTHS = [300, 20, 4000, 77, 1500, 1500, 9, 640]


def test_equal_plans_are_equal_wherever_they_were_made(server):
    plan = batchplan.plan(LENGTHS, dp=2, max_tokens=BUDGET)
    assert {plan, batchplan.plan(LENGTHS, dp=2, max_tokens=BUDGET)} == {plan}
    with batchplan.Client(server) as client:
        for step in (1, 2):
            assert client.plan(LENGTHS, dp=2, max_tokens=BUDGET, job_id="equal", step=step) == plan


@pytest.mark.parametrize("lengths, changed", [
    ([*LENGTHS[:-1], 641], {}),
    (LENGTHS[::-1], {}),
    # The same micro-batches, but not for the same request.
    (LENGTHS, {"limits": {"patches": 30.0}}),
    (LENGTHS, {"cost": batchplan.CostModel(2.0)}),
    (LENGTHS, {"loads": {"patches": [1.0] * 7 + [2.0]}}),
    (LENGTHS, {"kinds": [1] * 8}),
    (LENGTHS, {"tp": 2}),
    (LENGTHS, {"dp": 1}),
])
def test_other_plans_are_not_equal(lengths, changed):
    options = {"dp": 2, "max_tokens": BUDGET, "loads": {"patches": [1.0] * 8}}
    plan = batchplan.plan(LENGTHS, **options)
    other = batchplan.plan(lengths, **{**options, **changed})
    assert plan != other and not plan == other
    assert plan != "plan" and plan.passes[0] != plan


def joined(server, job_id, lengths, **options):
    """Of each of three workers."""
    parts = numpy.array_split(numpy.array(lengths), 3)
    loads = options.pop("loads", None)
    with batchplan.Client(server) as client, concurrent.futures.ThreadPoolExecutor(3) as workers:
        def join(worker):
            given = {} if loads is None else {"loads": {"patches": numpy.array_split(numpy.array(loads), 3)[worker]}}
            own = {name: value[worker] if isinstance(value, list) else value for name, value in options.items()}
            return client.join(parts[worker], job_id=job_id, step=1, worker=worker, world_size=3, dp=3,
                               max_tokens=BUDGET, **given, **own)

        return list(workers.map(join, range(3)))


def test_joined_plans_are_equal_where_workers_know_the_same(server, saved):
    plans = joined(server, "saved", LENGTHS)
    assert plans[0] == plans[1] == plans[2]
    assert_same(plans[0], saved(plans[0]))
    assert saved(plans[0]).worker_offsets.tolist() == [0, 3, 6, 8]
    with pytest.raises(ValueError, match="workers joined, none of whom .*return_request=True"):
        saved(plans[0]).explain()
    # None of them knows the lengths of sequences that it did not plan, and that may be.
    assert plans[0] != batchplan.plan(LENGTHS, dp=3, max_tokens=BUDGET)


def test_a_worker_may_have_the_whole_request(server, saved):
    patches = [float(length) for length in LENGTHS]
    plans = joined(server, "whole", LENGTHS, loads=patches, return_request=[True, True, False])
    here = batchplan.plan(LENGTHS, dp=3, max_tokens=BUDGET, loads={"patches": patches})
    assert plans[0] == plans[1] != plans[2]
    assert plans[0].explain() == here.explain() == saved(plans[0]).explain()
    assert plans[0].to_html() != plans[2].to_html()
    for rank in range(3):
        assert [one.loads for one in plans[0].rank(rank)] == [one.loads for one in here.rank(rank)]
        assert [one.loads for one in plans[2].rank(rank)] == [{} for _ in here.rank(rank)]
    assert_same(plans[0], saved(plans[0]))


@pytest.mark.parametrize("whole", [False, True])
def test_one_ranks_part_is_saved_as_that(server, saved, whole):
    plans = joined(server, f"parts-{whole}", LENGTHS, rank=[0, 1, 1], return_request=whole)
    assert plans[0] != plans[1] == plans[2]
    other = saved(plans[1])
    assert_same(plans[1], other)
    with pytest.raises(IndexError, match="rank is 0; must be 1 to 1"):
        other.rank(0)
    with pytest.raises(ValueError, match="one rank's part of a plan"):
        other.explain()


def test_dealt_loads_of_one_ranks_part_are_not_known(server):
    options = {"dp": 2, "max_tokens": BUDGET, "items": {"images": [[5.0], [6.0], [7.0]]},
               "cost": batchplan.CostModel(1, loads=[batchplan.LoadCost("images", 1, dealt=True)])}
    with batchplan.Client(server) as client, concurrent.futures.ThreadPoolExecutor(2) as workers:
        def join(worker):
            return client.join([900, 800, 700], job_id="dealt", step=1, worker=worker, world_size=2, rank=worker,
                               return_request=True, **options)

        plans = list(workers.map(join, range(2)))
    for rank, plan in enumerate(plans):
        assert all("images" not in one.loads for one in plan.rank(rank))
        assert len(plan.item_sequences["images"]) == 6


@pytest.mark.parametrize("spoilt, told", [
    (lambda data: b"", "its first line is not that of a plan"),
    (lambda data: b"\0" * 5000, "its first line is not that of a plan"),
    (lambda data: b"[1]\n", "its first line is not that of a plan"),
    (lambda data: json.dumps({"fingerprint": "0"}).encode() + b"\n", "its first line is not that of a plan"),
    (lambda data: data[:40], "its first line is not that of a plan"),
    (lambda data: data[:-1], "it has [0-9]+ bytes behind its first line; there must be [0-9]+"),
    (lambda data: data + b"\n", "it has [0-9]+ bytes behind its first line; there must be [0-9]+"),
    (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "not those that were written"),
    (lambda data: data.replace(b'"version": 1', b'"version": 2'), "its version is 2; this version of batchplan reads 1"),
    (lambda data: data.replace(b'"ranks": 2', b'"ranks": 3'), "no plan for 3 ranks"),
    (lambda data: data.replace(b'"ranks": 2, ', b''), "its first line has no ranks"),
])
def test_a_file_that_is_no_plan_is_named(tmp_path, spoilt, told):
    path = tmp_path / "step-7.plan"
    batchplan.plan(LENGTHS, dp=2, max_tokens=BUDGET).save(path)
    path.write_bytes(spoilt(path.read_bytes()))
    with pytest.raises(ValueError, match=rf"step-7\.plan is no plan that save\(\) wrote: .*{told}"):
        batchplan.Plan.load(path)


def test_what_a_later_version_adds_is_not_left_out_silently(tmp_path):
    from batchplan import _plan_file

    plan, path = batchplan.plan(LENGTHS, dp=2, max_tokens=BUDGET), tmp_path / "later.plan"
    plan.save(path)
    line, message = _plan_file.from_bytes(path.read_bytes())
    own = {name: line[name] for name in ("where", "ranks", "rank", "own_part")}
    # Field 1000, a number.
    path.write_bytes(_plan_file.to_bytes(message + b"\xc0\x3e\x01", **own))
    with pytest.raises(ValueError, match="field 1000 of batchplan.v1.JoinBatchResponse is not known"):
        batchplan.Plan.load(path)


def test_a_file_that_is_not_there_is_an_error_of_the_system(tmp_path):
    plan = batchplan.plan(LENGTHS, max_tokens=BUDGET)
    with pytest.raises(FileNotFoundError):
        batchplan.Plan.load(tmp_path / "none.plan")
    with pytest.raises(FileNotFoundError):
        plan.save(tmp_path / "none" / "one.plan")
    with pytest.raises(IsADirectoryError):
        plan.save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_replaced_in_one_step(tmp_path):
    first, second = (batchplan.plan(LENGTHS * times, dp=2, max_tokens=BUDGET) for times in (1, 200))
    path, link = tmp_path / "latest.plan", tmp_path / "link.plan"
    first.save(path)
    link.symlink_to(path)
    done = threading.Event()

    def write():
        for _ in range(50):
            for plan in (second, first):
                plan.save(str(link))
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    found = set()
    while not done.is_set():
        found.add(batchplan.Plan.load(path))
    writer.join()
    assert found <= {first, second}
    assert link.is_symlink() and sorted(tmp_path.iterdir()) == [path, link]
