"""A call as a row of attempts, by the rules that the C++ client has too. What is to be done next is
decided here, for threads and for asyncio alike; the clients do it."""

from __future__ import annotations

import dataclasses
import logging
import random
import time
from collections.abc import Callable, Generator
from typing import Any

from batchplan import _core
from batchplan._calls import Answer, Call
from batchplan._errors import Error, TlsError, from_status

_log = logging.getLogger("batchplan")
_DEADLINE_EXCEEDED = 4
_UNAVAILABLE = 14
_HEALTH = "/grpc.health.v1.Health/Check"
# A HealthCheckResponse whose status, its one field, is NOT_SERVING.
_NOT_SERVING = b"\x08\x02"


@dataclasses.dataclass(frozen=True)
class Attempt:
    """Send `request`; the client gives back the answer, or the Failure."""

    # "/package.Service/Method".
    method: str
    request: bytes
    timeout: float


@dataclasses.dataclass(frozen=True)
class Pause:
    """Wait, unless the client is closed meanwhile."""

    seconds: float


@dataclasses.dataclass(frozen=True)
class Work:
    """Run something that blocks; the client gives back what it returns."""

    run: Callable[[], Any]
    # Ends it early.
    stop: _core.Stop = dataclasses.field(default_factory=_core.Stop)


@dataclasses.dataclass(frozen=True)
class Failure:
    """How an attempt ended that got no answer."""

    # gRPC's number.
    code: int
    message: str
    # What the server said of the next attempt, in seconds: negative for never.
    pushback: float | None = None


Step = Attempt | Pause | Work


class Caller:
    """What a client remembers of its servers between calls. Thread-safe: at worst, concurrent calls probe
    once too often."""

    def __init__(
        self,
        *,
        fallback: bool,
        tls_mistake: Callable[[str], Work | str | None] = lambda message: None,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """
        Args:
            fallback: plan in this process if servers do not, where that is possible.
            tls_mistake: from a failure's message to what is wrong with certificates, or to work that
                finds out; None if nothing is suspected.
            clock, chance: functions that return seconds, and a random number from 0 to 1.
        """
        self._fallback = fallback
        self._tls_mistake = tls_mistake
        self._clock = clock
        self._chance = chance
        # Whether the last call that might have fallen back found that no server answers.
        self._silent = False

    def steps(self, call: Call[Answer], timeout: float) -> Generator[Step, Any, Answer]:
        """Yields steps to do, is sent their results, and returns the call's answer.

        Raises:
            Error: of the last attempt, or of the plan in this process.
        """
        begin = self._clock()
        if not self._fallback or call.here is None:
            return call.read((yield from self._attempts(call, call.kind, timeout)))
        try:
            if self._silent:
                yield from self._probe(min(_core.PROBE_TIMEOUT, timeout / 2))
            left = timeout - (self._clock() - begin)
            kind = _core.CallKind.PLAN_WITH_FALLBACK
            answer = yield from self._attempts(call, kind, left)
        except _FallBack as reason:
            left = timeout - (self._clock() - begin)
            if left <= 0:
                raise reason.error from None
            _log.warning("planning in process, since no server made the plan: %s", reason.error)
            here, stop = call.here, _core.Stop()
            plan: Answer = yield Work(lambda: here(left, stop), stop)
            return plan
        return call.read(answer)

    def _attempts(
        self, call: Call[Answer], kind: _core.CallKind, timeout: float
    ) -> Generator[Step, Any, bytes]:
        attempts = _core.CallAttempts(kind, timeout)
        begin = self._clock()
        before: Failure | None = None
        looked = False
        while True:
            left = attempts.timeout(self._clock() - begin)
            end = yield Attempt(f"/batchplan.v1.BatchPlanner/{call.method}", call.request, left)
            if not isinstance(end, Failure):
                self._silent = False
                answer: bytes = end
                return answer
            if end.code == _UNAVAILABLE:
                looked = yield from self._check_tls(end.message, looked)
            action, wait = attempts.after(
                end.code, end.pushback, self._clock() - begin, self._chance()
            )
            if action == _core.Action.RETRY:
                if end.code != _DEADLINE_EXCEEDED:
                    before = end
                yield Pause(wait)
                continue
            error = from_status(end.code, _with_reason(end, before))
            if kind == _core.CallKind.PLAN_WITH_FALLBACK:
                self._silent = _core.is_no_answer(end.code)
            if action == _core.Action.FALL_BACK:
                raise _FallBack(error)
            raise error

    def _probe(self, timeout: float) -> Generator[Step, Any, None]:
        """Finds out whether a server answers again, even if only with an error."""
        end = yield Attempt(_HEALTH, b"", timeout)
        if end == _NOT_SERVING:
            raise _FallBack(from_status(_UNAVAILABLE, "the server says that it does not serve"))
        if isinstance(end, Failure) and _core.is_no_answer(end.code):
            yield from self._check_tls(end.message, looked=True)
            raise _FallBack(from_status(_UNAVAILABLE, f"no server answers: {end.message}"))

    def _check_tls(self, message: str, looked: bool) -> Generator[Step, Any, bool]:
        """Raises TlsError if TLS is why no server can be reached. Only the first closer look is taken."""
        found = self._tls_mistake(message)
        if isinstance(found, Work):
            if looked:
                return looked
            looked = True
            found = yield found
        if found is not None:
            raise TlsError(found)
        return looked


class _FallBack(Exception):
    def __init__(self, error: Error) -> None:
        super().__init__()
        self.error = error


def _with_reason(end: Failure, before: Failure | None) -> str:
    """The message of `end`; a mere timeout also tells why the attempts before it failed."""
    if end.code != _DEADLINE_EXCEEDED or before is None:
        return end.message
    return f"{end.message}; before that: {before.message}"
