"""Why ranks wait: Plan.explain(). The arithmetic is tested where it is, in tests/server/explain."""

import math

import batchplan
import numpy
import pytest

LENGTHS = [1000, 100, 100, 100]


def test_causes_add_up_to_what_the_step_takes_beyond_the_ideal_one():
    plan = batchplan.plan(LENGTHS, dp=2, max_tokens=1024)
    why = plan.explain()
    assert why.predicted_step_time == plan.metrics.predicted_step_time
    assert why.ideal_step_time == plan.metrics.ideal_step_time
    total = sum(cause.step_time for cause in why.causes)
    assert math.isclose(total, why.predicted_step_time - why.ideal_step_time)
    assert why.causes[0].name == "longest_sequence"
    assert why.causes[0].in_any_plan
    assert math.isclose(why.causes[0].share, why.causes[0].step_time / why.predicted_step_time)
    (lone,) = why.lone_sequences
    assert (lone.sequence, lone.length, lone.slot) == (0, 1000, 0)
    assert "1,000 tokens" in str(why)


def test_sequences_that_wait_have_reasons():
    plan = batchplan.plan(LENGTHS, max_tokens=1024, selection=batchplan.Selection(sequences=3))
    assert len(plan.deferred) == 1
    assert len(plan.explain().deferral) == 1
    assert plan.explain().deferral[0] in str(plan.explain())
    assert batchplan.plan(LENGTHS, max_tokens=1024).explain().deferral == ()


def test_a_plan_keeps_what_it_is_explained_by():
    lengths = numpy.array(LENGTHS, numpy.uint32)
    plan = batchplan.plan(lengths, dp=2, max_tokens=1024)
    before = plan.explain()
    lengths[:] = 1
    assert plan.explain() == before


def test_each_pass_is_explained_by_itself():
    plan = batchplan.plan(LENGTHS, dp=2, passes=[batchplan.Pass(1024, name="train"), batchplan.Pass(2048, name="score")])
    assert plan.explain(1).predicted_step_time == plan.passes[1].metrics.predicted_step_time
    with pytest.raises(IndexError):
        plan.explain(2)


def test_the_page_says_it_too():
    plan = batchplan.plan(LENGTHS, dp=2, max_tokens=1024)
    for sentence in plan.explain().sentences:
        assert sentence in plan.to_html()


def test_a_servers_plan_is_explained_here_and_a_joined_one_is_not(server):
    with batchplan.Client(server) as client:
        plan = client.plan(LENGTHS, dp=2, max_tokens=1024)
        joined = client.join(LENGTHS, job_id="explained", step=1, worker=0, world_size=1, dp=2, max_tokens=1024)
    assert plan.explain() == batchplan.plan(LENGTHS, dp=2, max_tokens=1024).explain()
    with pytest.raises(ValueError, match="workers joined"):
        joined.explain()
