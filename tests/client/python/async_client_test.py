"""batchplan.AsyncClient: what differs from Client."""

import asyncio

import batchplan
import pytest
from processes import free_port

OPTIONS = {"dp": 2, "max_tokens": 8192}


def run(target, work, **settings):
    async def main():
        async with batchplan.AsyncClient(target, **settings) as client:
            return await work(client)

    return asyncio.run(main())


def test_many_plans_are_under_way_at_once(server):
    batches = [[1 + (seed * i) % 4000 for i in range(100)] for seed in range(1, 20)]

    async def work(client):
        return await asyncio.gather(*(client.plan(lengths, **OPTIONS) for lengths in batches))

    assert [plan.fingerprint for plan in run(server, work)] == [
        batchplan.plan(lengths, **OPTIONS).fingerprint for lengths in batches]


def test_workers_join_in_one_event_loop(server):
    async def work(client):
        return await asyncio.gather(*(
            client.join([100 + worker] * 4, job_id="async", step=1, worker=worker, world_size=3, rank=worker % 2,
                        **OPTIONS) for worker in range(3)))

    plans = run(server, work)
    assert {plan.fingerprint for plan in plans} == {
        batchplan.plan([100] * 4 + [101] * 4 + [102] * 4, **OPTIONS).fingerprint}
    assert [plan.own_part for plan in plans] == [range(0, 4), range(4, 8), range(8, 12)]


def test_reports_are_counted(server):
    timing = batchplan.MicroBatchTiming(tokens=100, tokens_squared=10000, milliseconds=2)
    plan = batchplan.plan([100], max_tokens=100)
    fit = run(server, lambda client: client.report_step([timing], job_id="async-fit", step=1, plan=plan))
    assert (fit.samples, fit.cost) == (1, None)


def test_errors_are_those_of_the_client(server):
    with pytest.raises(batchplan.InvalidRequest, match=r"manifest.lengths\[1\] .*is 9000"):
        run(server, lambda client: client.plan([1, 9000], **OPTIONS))
    nobody = f"127.0.0.1:{free_port()}"
    with pytest.raises(batchplan.Unavailable):
        run(nobody, lambda client: client.plan([1, 2], **OPTIONS), timeout=2)
    plan = run(nobody, lambda client: client.plan([1, 2], **OPTIONS), timeout=2, fallback=True)
    assert plan.fingerprint == batchplan.plan([1, 2], **OPTIONS).fingerprint


def test_a_cancelled_call_is_given_up(server):
    async def work(client):
        join = asyncio.create_task(
            client.join([1, 2], job_id="cancelled", step=1, worker=0, world_size=2, **OPTIONS))
        await asyncio.sleep(0.1)
        join.cancel()
        with pytest.raises(asyncio.CancelledError):
            await join

    run(server, work)


def test_closing_ends_a_call_but_not_its_task(server):
    async def main():
        client = batchplan.AsyncClient(server)
        join = asyncio.create_task(client.join([1], job_id="closed", step=1, worker=0, world_size=2, **OPTIONS))
        await asyncio.sleep(0.2)
        await client.close()
        with pytest.raises(batchplan.Error, match="the client was closed during the call"):
            await join
        with pytest.raises(batchplan.Error, match="the client is closed"):
            await client.plan([1], **OPTIONS)

    asyncio.run(main())
