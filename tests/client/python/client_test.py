"""batchplan.Client, against a server."""

import concurrent.futures
import subprocess
import time

import batchplan
import numpy
import pytest
from batchplan import _calls
from processes import free_port

OPTIONS = {"dp": 4, "max_tokens": 8192, "preset": "balanced"}


def long_tailed(count, seed=1):
    lengths = numpy.random.default_rng(seed).lognormal(6, 1, count)
    return numpy.clip(lengths, 1, 8192).astype(numpy.uint32)


@pytest.fixture
def client(server):
    with batchplan.Client(server) as client:
        yield client


def test_a_server_makes_the_plan_that_is_made_here(client):
    lengths = long_tailed(2000)
    remote = client.plan(lengths, job_id="a", step=2**63, **OPTIONS)
    here = batchplan.plan(lengths, **OPTIONS)
    assert remote.fingerprint == here.fingerprint
    assert remote.metrics == here.metrics
    for of_server, of_ours in zip(remote.rank(3), here.rank(3)):
        assert (of_server.indices == of_ours.indices).all()


def test_what_the_server_refuses_is_named(client):
    with pytest.raises(batchplan.InvalidRequest) as caught:
        client.plan([1, 9000], **OPTIONS)
    assert caught.value.field == "manifest.lengths[1]"
    assert caught.value.value == "9000"
    with pytest.raises(batchplan.InvalidRequest, match="job_id"):
        client.plan([1], job_id="x" * 200, **OPTIONS)


@pytest.mark.parametrize("arguments, field, value", [
    ({"worker": -1}, "worker", "-1"),
    ({"rank": -3}, "data_parallel_rank", "-3"),
    ({"step": -1}, "request.step", "-1"),
    ({"rank": 1.0}, "data_parallel_rank", "1.0"),
    ({"dp": 2.0}, "topology.data_parallel", "2.0"),
    ({"job_id": b"a"}, "job_id", "b'a'"),
    ({"run_id": 7}, "run_id", "7"),
    ({"world_size": -1}, "world_size", "-1"),
    ({"timeout": float("nan")}, "timeout", "nan"),
    ({"timeout": "5"}, "timeout", "5"),
    ({"timeout": -1}, "timeout", "-1.0"),
    ({"wait": float("inf")}, "wait", "inf"),
    ({"wait": -1.0}, "wait", "-1.0"),
    ({"wait": float("nan")}, "wait", "nan"),
])
def test_wrong_joins_are_named(client, arguments, field, value):
    with pytest.raises(batchplan.InvalidRequest) as caught:
        client.join([1], **{"job_id": "a", "step": 1, "worker": 0, "world_size": 2, **OPTIONS, **arguments})
    assert (caught.value.field, caught.value.value) == (field, value)


@pytest.mark.parametrize("target, settings, message", [
    ("", {}, "target is empty"),
    (None, {}, "target is None"),
    ("a:1", {"timeout": float("inf")}, "timeout is inf; must be 0 to"),
    ("a:1", {"tls": "ca.pem"}, 'tls is "ca.pem"; must be a batchplan.Tls'),
    ("a:1", {"tls": batchplan.Tls(), "token": "two\nlines"}, "token has characters"),
    ("a:1", {"tls": batchplan.Tls(), "token": "é"}, "token has characters"),
])
def test_wrong_settings_are_named(target, settings, message):
    for kind in (batchplan.Client, batchplan.AsyncClient):
        with pytest.raises(batchplan.InvalidRequest, match=message):
            kind(target, **settings)


def test_a_closed_client_says_so(server):
    client = batchplan.Client(server, fallback=True)
    client.close()
    with pytest.raises(batchplan.Error, match="the client is closed"):
        client.plan([1], **OPTIONS)


@pytest.mark.parametrize("microbatches, field", [
    (batchplan.MicroBatchTiming(1, 1, 1.0), "microbatches"),
    ([{"tokens": 1}], "microbatches[0]"),
    ([batchplan.MicroBatchTiming(1.5, 1, 1.0)], "microbatches[0].tokens"),
    ([batchplan.MicroBatchTiming(1, 1, None)], "microbatches[0].milliseconds"),
    ([batchplan.MicroBatchTiming(1, 1, 1.0, rank=0.5)], "microbatches[0].rank"),
    ([batchplan.MicroBatchTiming(1, 1, 1.0, context_parallel=65537)], "microbatches[0].context_parallel"),
    ([batchplan.MicroBatchTiming(1, 1, 1.0, model_share=1.5)], "microbatches[0].model_share"),
    ([batchplan.MicroBatchTiming(1, 1, 1.0, model_share="1")], "microbatches[0].model_share"),
])
def test_wrong_reports_are_named(client, microbatches, field):
    with pytest.raises(batchplan.InvalidRequest) as caught:
        client.report_step(microbatches, job_id="a", step=1)
    assert caught.value.field == field


@pytest.mark.parametrize("arguments, field", [
    ({"plan": 3}, "plan"),
    ({"dp": 1.5}, "data_parallel"),
    ({"dp": 2**17}, "data_parallel"),
    ({"synchronization": "never"}, "synchronization"),
    ({"predicted_step_time": "1"}, "predicted_step_time"),
    ({"predicted_step_time": float("inf")}, "predicted_step_time"),
])
def test_what_was_planned_wrongly_is_named(client, arguments, field):
    with pytest.raises(batchplan.InvalidRequest) as caught:
        client.report_step([batchplan.MicroBatchTiming(1, 1, 1.0)], job_id="a", step=1, **arguments)
    assert caught.value.field == field


def test_a_report_says_what_its_plan_predicted():
    """Its bytes are those of what is said without the plan; other costs than fitted ones have no unit."""
    plan = batchplan.plan([9, 5, 7, 3], dp=2, max_tokens=16, synchronization="accumulated")
    timings = [one.timing(2.5) for rank in range(2) for one in plan.rank(rank)]

    def report(plan=None, predicted=None, synchronization=None, dp=None):
        return _calls.report_call("a", 1, timings, 0, plan, predicted, synchronization, dp).request

    assert report(plan) == report(None, None, "accumulated", 2) != report()
    assert report(plan.passes[0], 7.5) == report(None, 7.5, "accumulated", 2)


def test_timings_are_of_the_ranks_and_stages_of_their_plan():
    plan = batchplan.plan([9, 5, 7, 3], dp=1, max_tokens=64, cp=2, pp=2)

    def report(plan, **said):
        timing = batchplan.MicroBatchTiming(16, 256, 1.0, **said)
        return _calls.report_call("a", 1, [timing], 0, plan, None, None, None).request

    assert report(plan) == report(plan, context_parallel=2, model_share=0.5)
    assert report(plan) != report(plan, context_parallel=4) != report(plan, model_share=1.0)
    # What is not said is not sent.
    assert report(None) == report(None, context_parallel=1, model_share=1.0)
    uneven = batchplan.Pipeline(stage_shares=(1, 2))
    plan = batchplan.plan([9, 5, 7, 3], dp=1, max_tokens=64, pp=2, pipeline=uneven)
    with pytest.raises(batchplan.InvalidRequest) as caught:
        report(plan)
    assert caught.value.field == "microbatches[0].model_share"
    assert report(plan, model_share=0.25) != report(plan, model_share=0.75)


def test_costs_of_groups_and_stages_are_those_of_the_whole_model_on_one_rank():
    timings = [
        batchplan.MicroBatchTiming(
            n * length, n * length**2, (0.01 * n * length / cp + 2e-6 * n * length**2 / cp + 3 + 0.5 * n) * share,
            sequences=n, context_parallel=cp, model_share=share)
        for cp, share in ((1, 1.0), (4, 0.25), (8, 0.125))
        for n in (1, 5, 30)
        for length in (128, 1024, 8192)
    ]
    fit = batchplan.fit_costs(timings)
    assert fit.error < 1e-6
    assert fit.cost.to_dict() == pytest.approx(
        {"per_token": 0.01, "per_token_squared": 2e-6, "per_microbatch": 3, "per_sequence": 0.5}, rel=1e-6)


def test_a_time_that_is_no_number_is_named(client):
    timing = batchplan.MicroBatchTiming(numpy.int64(1), 1, float("nan"))
    with pytest.raises(batchplan.InvalidRequest, match="milliseconds"):
        client.report_step([timing], job_id="nan", step=1)


def test_any_number_of_threads_may_call(client):
    batches = [long_tailed(200, seed) for seed in range(20)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        plans = list(pool.map(lambda lengths: client.plan(lengths, **OPTIONS), batches))
    assert [plan.fingerprint for plan in plans] == [
        batchplan.plan(lengths, **OPTIONS).fingerprint for lengths in batches]


def test_workers_join_their_lengths(client):
    parts = [long_tailed(100, seed) for seed in range(4)]

    def join(worker):
        return client.join(parts[worker], job_id="joined", step=1, worker=worker, world_size=4, **OPTIONS)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        plans = list(pool.map(join, range(4)))
    whole = batchplan.plan(numpy.concatenate(parts), **OPTIONS)
    assert {plan.fingerprint for plan in plans} == {whole.fingerprint}
    assert plans[2].worker_offsets.tolist() == [0, 100, 200, 300, 400]
    assert [plan.own_part for plan in plans] == [range(100 * worker, 100 * worker + 100) for worker in range(4)]
    assert join(1).fingerprint == whole.fingerprint


def test_workers_keep_the_sequences_that_they_join_with(client):
    parts = [long_tailed(100, seed) for seed in range(4)]

    def join(worker):
        return client.join(parts[worker], job_id="dispatched", step=1, worker=worker, world_size=4,
                           rank=worker, ranks=[worker] * 100, **OPTIONS)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        plans = list(pool.map(join, range(4)))
    for worker, plan in enumerate(plans):
        own = [index for one in plan.rank(worker) for index in one.indices.tolist()]
        assert sorted(own) == list(range(100 * worker, 100 * worker + 100))
    assert len({plan.fingerprint for plan in plans}) == 1


def test_a_worker_that_takes_its_rank_is_told_of_others_if_it_asks(client):
    parts = [[40 + worker, 9000, 30] for worker in range(3)]

    def join(worker, **how):
        return client.join(parts[worker], job_id="own", step=1, worker=worker, world_size=3, rank=worker % 2,
                           dp=2, max_tokens=64, overlong="drop", **how)

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        plans = list(pool.map(join, range(3)))
    for worker, plan in enumerate(plans):
        assert (plan.own_part, plan.worker_offsets) == (range(3 * worker, 3 * worker + 3), None)
        assert [one.index for one in plan.excluded] == [3 * worker + 1]
        every = join(worker, own_part=False)
        assert (every.own_part, every.worker_offsets.tolist()) == (plan.own_part, [0, 3, 6, 9])
        assert [one.index for one in every.excluded] == [1, 4, 7]
        assert every.fingerprint == plan.fingerprint
        assert [one.indices.tolist() for one in every.rank(worker % 2)] == [
            one.indices.tolist() for one in plan.rank(worker % 2)]
    with pytest.raises(batchplan.InvalidRequest, match="own_part"):
        join(0, own_part="no")


def test_a_worker_may_take_its_own_rank_alone(client):
    lengths = long_tailed(400)
    own = client.join(lengths, job_id="slice", step=1, worker=0, world_size=1, rank=3, **OPTIONS)
    whole = batchplan.plan(lengths, **OPTIONS)
    assert [one.indices.tolist() for one in own.rank(3)] == [one.indices.tolist() for one in whole.rank(3)]
    assert own.fingerprint == whole.fingerprint
    with pytest.raises(IndexError, match="rank is 0; must be 3 to 3"):
        own.rank(0)
    assert "rank 3 alone" in repr(own)
    for needs_all in (own.restore, own.compare):
        with pytest.raises(ValueError, match="one rank's part of a plan"):
            needs_all(lengths)
    # What its rank reports is of the whole plan all the same.
    assert own.passes[0].data_parallel == 4


def test_a_worker_may_take_its_rank_of_a_pool_alone(client):
    lengths = [60, 50, *([3] * 30)]
    options = {"dp": 2, "cp": 2, "max_tokens": 32, "dynamic_cp": True,
               "cost": batchplan.CostModel(1.0, 0.02, 20.0, exchange=((0, 1.0),))}
    whole = batchplan.plan(lengths, **options)
    assert len(set(whole.passes[0].context_sizes.tolist())) > 1
    for rank in range(4):
        own = client.join(lengths, job_id="pool", step=1, worker=0, world_size=1, rank=rank, **options)
        assert own.fingerprint == whole.fingerprint
        for one, same in zip(own.rank(rank), whole.rank(rank), strict=True):
            assert one.indices.tolist() == same.indices.tolist()
            assert (one.slot, one.ranks, one.context_parallel_rank, one.length_multiple, one.width) == (
                same.slot, same.ranks, same.context_parallel_rank, same.length_multiple, same.width)
    with pytest.raises(batchplan.InvalidRequest) as caught:
        client.join(lengths, job_id="pool", step=1, worker=0, world_size=1, rank=4, **options)
    assert (caught.value.field, caught.value.value) == ("data_parallel_rank", "4")


def test_a_join_belongs_to_a_run(monkeypatch):
    def join(run_id=None):
        """Its bytes; the run's id is their last field."""
        return _calls.join_call([1], "a", 1, 0, 2, None, True, None, run_id, False, max_tokens=8).request

    for name in ("TORCHELASTIC_RUN_ID", "SLURM_HET_JOB_ID", "SLURM_JOB_ID", "SLURM_RESTART_COUNT"):
        monkeypatch.delenv(name, raising=False)
    none = join()
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    monkeypatch.setenv("SLURM_STEP_ID", "0")
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "2")
    assert join() == none + b"\x3a\x0fslurm-4711.0.r0"
    monkeypatch.setenv("SLURM_RESTART_COUNT", "3")
    assert join() == none + b"\x3a\x0fslurm-4711.0.r3"
    assert join("mine") == none + b"\x3a\x04mine"
    assert join("") == none
    # Torch's launcher starts workers anew within a step.
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    assert join() == none


def test_who_does_not_join_is_named(client):
    with pytest.raises(batchplan.DeadlineExceeded, match="1, 2"):
        client.join([1], job_id="lonely", step=1, worker=0, world_size=3, wait=0.2, **OPTIONS)
    assert issubclass(batchplan.DeadlineExceeded, TimeoutError)


def test_workers_must_want_the_same(client):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        # As long as somebody waits for it, a step does not give way to other terms.
        waiting = pool.submit(
            client.join, [1, 1], job_id="differ", step=1, worker=0, world_size=2, wait=20, **OPTIONS)
        time.sleep(1)
        with pytest.raises(batchplan.Error, match="max_tokens_per_microbatch"):
            client.join(
                [1, 1], job_id="differ", step=1, worker=1, world_size=2, **{**OPTIONS, "max_tokens": 4096})
        plan = client.join([1, 1], job_id="differ", step=1, worker=1, world_size=2, **OPTIONS)
        assert waiting.result().fingerprint == plan.fingerprint


def test_costs_are_fitted_to_reports(client):
    def report(step):
        tokens = [1000 + 37 * (step * 8 + i) % 7000 for i in range(8)]
        return client.report_step(
            [batchplan.MicroBatchTiming(tokens=n, tokens_squared=n * n,
                                        milliseconds=0.01 * n + 2e-6 * n * n + 3, peak_bytes=10**9 + 10**5 * n)
             for n in tokens], job_id="fit", step=step, memory_limit_bytes=2 * 10**9)

    assert report(0).cost is None
    with pytest.raises(batchplan.FailedPrecondition, match="fitted"):
        client.plan([1, 2], job_id="fit", cost="fitted", **OPTIONS)
    for step in range(1, 20):
        fit = report(step)
    assert fit.samples == 160
    assert fit.cost.per_token == pytest.approx(0.01, rel=0.02)
    assert fit.cost.per_token_squared == pytest.approx(2e-6, rel=0.02)
    assert fit.suggested_max_tokens > 5000
    assert report(19).already_counted
    lengths = long_tailed(100)
    fitted = client.plan(lengths, job_id="fit", cost="fitted", **OPTIONS)
    timings = [one.timing(2.0) for rank in range(4) for one in fitted.rank(rank)]
    assert fitted.passes[0].predicted_milliseconds == fitted.metrics.predicted_step_time
    assert fitted.compare(timings).error == pytest.approx(
        fitted.metrics.predicted_step_time / (2 * len(list(fitted.rank(0)))) - 1)
    assert client.report_step(timings, job_id="fit", step=20, plan=fitted).samples == 160 + len(timings)
    assert fitted.fingerprint == client.plan(lengths, cost=fit.cost, **OPTIONS).fingerprint
    with pytest.raises(batchplan.FailedPrecondition, match="fitted"):
        batchplan.plan(lengths, cost="fitted", **OPTIONS)


def test_without_a_server_the_plan_is_made_here_if_asked(caplog):
    nobody = f"127.0.0.1:{free_port()}"
    lengths = long_tailed(50)
    with batchplan.Client(nobody, timeout=2) as client, pytest.raises(batchplan.Unavailable):
        client.plan(lengths, **OPTIONS)
    with batchplan.Client(nobody, timeout=2, fallback=True) as client:
        assert client.plan(lengths, **OPTIONS).fingerprint == batchplan.plan(lengths, **OPTIONS).fingerprint
        assert "planning in process" in caplog.text
        with pytest.raises(batchplan.InvalidRequest):
            client.plan([], **OPTIONS)
        with pytest.raises(batchplan.Unavailable):
            client.join([1], job_id="a", step=1, worker=0, world_size=1, **OPTIONS)


def test_tokens_go_over_tls_alone(start, tmp_path):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost", "-days", "2", "-keyout", tmp_path / "key.pem",
                    "-out", tmp_path / "certificate.pem"], check=True, capture_output=True)
    token = "t" * 32
    (tmp_path / "tokens").write_text(f"{token} grpo-\n")
    (tmp_path / "tokens").chmod(0o600)
    target = start(f"--tls_certificate={tmp_path}/certificate.pem", f"--tls_key={tmp_path}/key.pem",
                   f"--auth_tokens={tmp_path}/tokens").replace("127.0.0.1", "localhost")
    tls = batchplan.Tls(authorities=tmp_path / "certificate.pem")
    with batchplan.Client(target, tls=tls, token=token) as client:
        assert client.plan([5] * 8, job_id="grpo-7b", **OPTIONS).metrics.true_tokens == 40
        with pytest.raises(batchplan.AccessDenied, match="sft"):
            client.plan([5] * 8, job_id="sft", **OPTIONS)
    with batchplan.Client(target, tls=tls) as client, pytest.raises(batchplan.AccessDenied):
        client.plan([5] * 8, job_id="grpo-7b", **OPTIONS)
    with pytest.raises(batchplan.InvalidRequest, match="token is set without tls"):
        batchplan.Client(target, token=token)
    with pytest.raises(batchplan.InvalidRequest, match="tls.key"):
        batchplan.Client(target, tls=batchplan.Tls(certificate=tmp_path / "certificate.pem"))


def test_an_answer_whose_arrays_do_not_fit_is_an_error():
    """As of a server that is none of ours, or a line that lies."""
    lengths = numpy.array([5, 6, 7], numpy.uint32)
    call = _calls.plan_call(lengths, "", 0, dp=2, max_tokens=16)

    def answer(**changes):
        # Packed fields 2 to 6 of the first PassPlan, and its length multiple.
        arrays = {2: [0, 1, 2], 3: [0, 1, 3], 4: [1], 5: [8, 16], 6: [5, 6, 7], **{int(k[1:]): v for k, v in changes.items()}}
        one = b"".join(bytes([number << 3 | 2, len(values), *values]) for number, values in arrays.items())
        one += bytes([7 << 3, 1, 8 << 3 | 2, 0])
        return bytes([1 << 3 | 2, len(one)]) + one

    assert [len(one) for one in call.read(answer()).rank(1)] == [2]
    for changes in ({"f2": [0, 1]}, {"f3": [0, 1, 4]}, {"f3": [0, 3, 1]}, {"f3": [0, 3]}, {"f4": [2]}, {"f5": [8]}, {"f6": [5]}):
        with pytest.raises(batchplan.Error, match="its arrays do not fit each other"):
            call.read(answer(**changes))
    for wrong in (b"", b"\xff\xff", bytes([1 << 3 | 2, 100])):
        with pytest.raises(batchplan.Error, match="the answer "):
            call.read(wrong)
