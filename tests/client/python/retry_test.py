"""What is done when calls fail: _retry.Caller on a clock of its own."""

import errno
import logging
import os

import batchplan
import pytest
from batchplan import _calls, _core, _retry, _tls_mistake

OK, CANCELLED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED = 0, 1, 2, 3, 4
PERMISSION_DENIED, RESOURCE_EXHAUSTED, FAILED_PRECONDITION, ABORTED = 7, 8, 9, 10
UNIMPLEMENTED, INTERNAL, UNAVAILABLE, UNAUTHENTICATED = 12, 13, 14, 16
HEALTH = "/grpc.health.v1.Health/Check"


class World:
    """Servers that answer as `attempt(seconds, timeout)` says, and a clock that goes when somebody waits.
    An answer is bytes or a Failure, and the seconds it took."""

    def __init__(self, attempt, *, fallback=False, tls_mistake=lambda message: None, plan="planned here"):
        self.now = 0.0
        self.attempt = attempt
        self.plan = plan
        self.made = []
        self.caller = _retry.Caller(
            fallback=fallback, tls_mistake=tls_mistake, clock=lambda: self.now, chance=lambda: 0.999)

    def call(self, kind=_core.CallKind.PLAN, timeout=60.0, has_fallback=True):
        """The answer, and the seconds it took."""
        begin, self.made = self.now, []
        here = (lambda seconds, stop: self.plan) if has_fallback else None
        steps = self.caller.steps(_calls.Call(kind, "PlanBatch", b"request", bytes.decode, here), timeout)
        done = None
        while True:
            try:
                step = steps.send(done)
            except StopIteration as end:
                return end.value, self.now - begin
            if isinstance(step, _retry.Attempt):
                self.made.append((step.method.rpartition("/")[2], self.now - begin, step.timeout))
                done, took = self.attempt(step)
                if took > step.timeout:
                    done, took = _retry.Failure(DEADLINE_EXCEEDED, "Deadline Exceeded"), step.timeout
                self.now += took
            elif isinstance(step, _retry.Pause):
                self.now += step.seconds
                done = None
            else:
                done = step.run()


def failing(code, pushback=None, took=0.0, message="what was wrong"):
    return lambda attempt: (_retry.Failure(code, message, pushback), took)


KINDS = [_core.CallKind.PLAN, _core.CallKind.JOIN, _core.CallKind.REPORT]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("code", [UNAVAILABLE, CANCELLED])
def test_calls_are_made_again_until_their_time_is_over(kind, code):
    world = World(failing(code))
    with pytest.raises(batchplan.Error, match="what was wrong"):
        world.call(kind)
    assert 50 < world.now < 60
    world = World(lambda attempt: (b"plan", 0.1) if world.now > 50 else failing(code)(attempt))
    answer, seconds = world.call(kind)
    assert answer == "plan" and seconds < 53
    # Without a storm: waits grow to two seconds.
    assert len(world.made) < 40


def test_an_answer_in_the_first_attempt_is_all():
    world = World(lambda attempt: (b"plan", 0.1))
    assert world.call() == ("plan", pytest.approx(0.1))
    assert [name for name, *_ in world.made] == ["PlanBatch"]


def test_a_plan_has_a_time_for_each_attempt_but_a_join_waits_for_others():
    hung = lambda attempt: (b"", 1e9)  # noqa: E731
    plan, join = World(hung), World(hung)
    with pytest.raises(batchplan.DeadlineExceeded):
        plan.call(timeout=100)
    assert [timeout for *_, timeout in plan.made][0] == 40 and len(plan.made) == 3
    with pytest.raises(batchplan.DeadlineExceeded):
        join.call(_core.CallKind.JOIN, timeout=100)
    assert [timeout for *_, timeout in join.made] == [100]


def test_a_full_queue_says_when_to_come_again():
    world = World(lambda attempt: (b"plan", 0) if world.now > 8 else failing(RESOURCE_EXHAUSTED, 4.0)(attempt))
    assert world.call() == ("plan", 12.0)
    assert [begin for _, begin, _ in world.made] == [0, 4, 8, 12]


def test_a_full_queue_that_outlasts_the_call_is_told_at_once():
    world = World(failing(RESOURCE_EXHAUSTED, 61.0))
    with pytest.raises(batchplan.Overloaded):
        world.call()
    assert world.now == 0 and len(world.made) == 1
    never = World(failing(RESOURCE_EXHAUSTED, -1.0))
    with pytest.raises(batchplan.Overloaded):
        never.call()
    assert len(never.made) == 1


def test_replicas_of_other_versions_are_asked_a_few_times():
    world = World(failing(UNIMPLEMENTED))
    with pytest.raises(batchplan.Error):
        world.call()
    assert len(world.made) == 5 and world.now < 5


@pytest.mark.parametrize("code, error", [
    (INVALID_ARGUMENT, batchplan.InvalidRequest),
    (PERMISSION_DENIED, batchplan.AccessDenied),
    (UNAUTHENTICATED, batchplan.AccessDenied),
    (FAILED_PRECONDITION, batchplan.FailedPrecondition),
    (ABORTED, batchplan.Error),
])
def test_what_no_other_attempt_mends_is_told_at_once(code, error):
    for kind in KINDS:
        world = World(failing(code))
        with pytest.raises(error, match="what was wrong"):
            world.call(kind)
        assert len(world.made) == 1


@pytest.mark.parametrize("code", [
    UNAVAILABLE, CANCELLED, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, UNIMPLEMENTED, FAILED_PRECONDITION, INTERNAL, UNKNOWN,
])
def test_the_fallback_plans_whatever_the_server_is_in_want_of(code, caplog):
    world = World(failing(code), fallback=True)
    with caplog.at_level(logging.WARNING):
        answer, seconds = world.call()
    assert answer == "planned here" and seconds <= 15
    assert "planning in process, since no server made the plan: what was wrong" in caplog.text


@pytest.mark.parametrize("code", [INVALID_ARGUMENT, PERMISSION_DENIED, UNAUTHENTICATED, ABORTED])
def test_the_fallback_hides_no_refusal(code):
    world = World(failing(code), fallback=True)
    with pytest.raises(batchplan.Error, match="what was wrong"):
        world.call()


def test_what_needs_a_server_does_not_fall_back():
    world = World(failing(UNAVAILABLE), fallback=True)
    with pytest.raises(batchplan.Unavailable):
        world.call(has_fallback=False)
    assert world.now > 50


def test_the_first_call_beside_a_hung_server_loses_fifteen_seconds_and_later_ones_one():
    # Pings end a call after ten seconds; then no connection comes about within five.
    def hung(attempt):
        if attempt.method == HEALTH:
            return b"", 1e9
        return _retry.Failure(UNAVAILABLE, "ping timeout"), 10.0 if world.now < 10 else 5.0

    world = World(hung, fallback=True)
    assert world.call()[1] <= 15.5
    for _ in range(3):
        answer, seconds = world.call()
        assert answer == "planned here" and seconds <= 1
        assert [name for name, *_ in world.made] == ["Check"]
    # Back again, it is asked at once.
    world.attempt = lambda attempt: (b"\x08\x01" if attempt.method == HEALTH else b"plan", 3.0 if attempt.method != HEALTH else 0.01)
    assert world.call()[0] == "plan"
    assert world.call() == ("plan", 3.0)
    assert [name for name, *_ in world.made] == ["PlanBatch"]


def test_a_server_that_drains_or_has_no_health_check_answers():
    for answer, falls_back in ((b"\x08\x02", True), (_retry.Failure(UNIMPLEMENTED, "no such method"), False),
                               (_retry.Failure(UNAVAILABLE, "refused"), True)):
        world = World(failing(UNAVAILABLE), fallback=True)
        world.call()
        world.attempt = lambda attempt: (answer if attempt.method == HEALTH else b"plan", 0.0)
        assert world.call()[0] == ("planned here" if falls_back else "plan")


def test_a_call_keeps_half_of_its_time_for_the_fallback():
    world = World(lambda attempt: (b"", 1e9), fallback=True)
    assert world.call(timeout=4) == ("planned here", 2.0)


def test_time_that_ran_out_tells_what_was_wrong_before():
    def attempt(one):
        return failing(UNAVAILABLE, message="connection refused")(one) if len(world.made) == 1 else (b"", 1e9)

    world = World(attempt)
    with pytest.raises(batchplan.DeadlineExceeded, match="Deadline Exceeded; before that: connection refused"):
        world.call(_core.CallKind.JOIN)


@pytest.mark.parametrize("fallback", [False, True])
def test_a_mistake_in_certificates_is_told_at_once(fallback):
    def mistake(message):
        return message if "CERTIFICATE_VERIFY_FAILED" in message else None

    world = World(failing(UNAVAILABLE, message="CERTIFICATE_VERIFY_FAILED"), fallback=fallback, tls_mistake=mistake)
    with pytest.raises(batchplan.TlsError, match="CERTIFICATE_VERIFY_FAILED"):
        world.call()
    assert len(world.made) == 1


def test_a_closer_look_at_certificates_is_taken_once_a_call():
    looks = []

    def mistake(message):
        return _retry.Work(lambda: looks.append(message))

    world = World(failing(UNAVAILABLE), fallback=True, tls_mistake=mistake)
    assert world.call()[0] == "planned here"
    assert len(looks) == 1 < len(world.made)


@pytest.mark.parametrize("error", [errno.ECONNRESET, errno.EPIPE])
def test_a_closed_connection_is_known_in_the_language_of_the_process(error):
    """gRPC repeats what the system says of it."""
    mistake = _tls_mistake.TlsMistake("127.0.0.1:1", None)
    message = "failed to connect to all addresses; last error: UNAVAILABLE: ipv4:127.0.0.1:1: "
    assert isinstance(mistake(message + os.strerror(error)), _retry.Work)
    assert mistake(message + os.strerror(errno.ECONNREFUSED)) is None
