"""Plans by a server, for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

import grpc
from numpy.typing import ArrayLike

from batchplan._calls import Answer, Call, Fit, join_call, plan_call, report_call
from batchplan._channel import Tls, failure_of, open_channel
from batchplan._checks import seconds
from batchplan._errors import Error
from batchplan._fork import USED_AFTER_FORK
from batchplan._measured import MicroBatchTiming
from batchplan._option_help import takes_options
from batchplan._options import PlanOptions
from batchplan._pass_plan import PassPlan
from batchplan._plan import Plan
from batchplan._retry import Attempt, Caller, Failure, Pause, Step
from batchplan._tls_mistake import TlsMistake

if TYPE_CHECKING:
    from typing_extensions import Unpack


class AsyncClient:
    """Client with coroutines in place of methods that wait. It belongs to the event loop in which it
    was made; cancelling a coroutine cancels its call.

        async with batchplan.AsyncClient("dns:///planner:50051") as client:
            plan = await client.plan(lengths, dp=8, max_tokens=16384)
    """

    def __init__(
        self,
        target: str,
        *,
        tls: Tls | None = None,
        token: str | None = None,
        timeout: float = 60.0,
        fallback: bool = False,
    ) -> None:
        """As Client's."""
        self._timeout = seconds("timeout", timeout)
        self._process = os.getpid()
        self._channel: grpc.aio.Channel = open_channel(grpc.aio, target, tls, token)
        self._caller = Caller(fallback=fallback, tls_mistake=TlsMistake(target, tls))
        self._closing = asyncio.Event()

    @takes_options()
    async def plan(
        self,
        lengths: ArrayLike | Iterable[float],
        *,
        job_id: str = "",
        step: int = 0,
        timeout: float | None = None,
        **options: Unpack[PlanOptions],
    ) -> Plan:
        """As Client.plan; the fallback plans in another thread.

        Args:
            options: those of batchplan.plan.
        """
        return await self._run(plan_call(lengths, job_id, step, **options), timeout)

    @takes_options()
    async def join(
        self,
        lengths: ArrayLike | Iterable[float],
        *,
        job_id: str,
        step: int,
        worker: int,
        world_size: int,
        rank: int | None = None,
        own_part: bool = True,
        wait: float | None = None,
        run_id: str | None = None,
        return_request: bool = False,
        timeout: float | None = None,
        **options: Unpack[PlanOptions],
    ) -> Plan:
        """As Client.join.

        Args:
            options: those of batchplan.plan; all workers agree on them.
        """
        return await self._run(
            join_call(
                lengths, job_id, step, worker, world_size, rank, own_part, wait, run_id, return_request, **options
            ),
            timeout,
        )

    async def report_step(
        self,
        microbatches: Sequence[MicroBatchTiming],
        *,
        job_id: str,
        step: int,
        memory_limit_bytes: int = 0,
        plan: Plan | PassPlan | None = None,
        predicted_step_time: float | None = None,
        synchronization: str | None = None,
        dp: int | None = None,
        timeout: float | None = None,
    ) -> Fit:
        """As Client.report_step."""
        return await self._run(
            report_call(
                job_id,
                step,
                microbatches,
                memory_limit_bytes,
                plan,
                predicted_step_time,
                synchronization,
                dp,
            ),
            timeout,
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError("an AsyncClient can't be pickled; make one in each process")

    async def close(self) -> None:
        """Ends calls that are under way, too."""
        self._closing.set()
        await self._channel.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _run(self, call: Call[Answer], timeout: float | None) -> Answer:
        if os.getpid() != self._process:
            raise Error(USED_AFTER_FORK)
        if self._closing.is_set():
            raise Error("the client is closed")
        limit = self._timeout if timeout is None else seconds("timeout", timeout)
        steps = self._caller.steps(call, limit)
        done: Any = None
        while True:
            try:
                step = steps.send(done)
            except StopIteration as end:
                answer: Answer = end.value
                return answer
            done = await self._do(step)

    async def _do(self, step: Step) -> Any:
        if isinstance(step, Attempt):
            return await self._attempt(step)
        if isinstance(step, Pause):
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._closing.wait(), step.seconds)
            return None
        try:
            return await asyncio.to_thread(step.run)
        except asyncio.CancelledError:
            step.stop.request()
            raise

    async def _attempt(self, attempt: Attempt) -> bytes | Failure:
        try:
            self._check_open()
            send: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(
                attempt.method
            )
            return await send(attempt.request, timeout=attempt.timeout)
        except grpc.aio.AioRpcError as error:
            self._check_open()
            return failure_of(error)
        except asyncio.CancelledError:
            # So gRPC ends what close() interrupts. From Python 3.11 on a task knows whether it is meant.
            if not getattr(asyncio.current_task(), "cancelling", int)():
                self._check_open()
            raise

    def _check_open(self) -> None:
        if self._closing.is_set():
            raise Error("the client was closed during the call") from None
