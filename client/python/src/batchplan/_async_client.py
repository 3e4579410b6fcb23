"""Plans by a server, for asyncio."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

import grpc
from numpy.typing import ArrayLike

from batchplan._calls import Answer, Call, Fit, MicroBatchTiming, join_call, plan_call, report_call
from batchplan._channel import Tls, check_target, credentials_for, options_for
from batchplan._checks import seconds
from batchplan._errors import Error, Unavailable, from_status
from batchplan._local import plan as plan_here
from batchplan._options import PlanOptions
from batchplan._plan import Plan

if TYPE_CHECKING:
    from typing_extensions import Unpack

_log = logging.getLogger("batchplan")


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
        self._fallback = fallback
        self._closed = False
        check_target(target)
        credentials = credentials_for(tls, token)
        options = options_for(tls)
        self._channel = (
            grpc.aio.insecure_channel(target, options)
            if credentials is None
            else grpc.aio.secure_channel(target, credentials, options)
        )

    async def plan(
        self,
        lengths: ArrayLike,
        *,
        job_id: str = "",
        step: int = 0,
        timeout: float | None = None,
        **options: Unpack[PlanOptions],
    ) -> Plan:
        """As Client.plan; the fallback plans in another thread."""
        call = plan_call(lengths, job_id, step, **options)
        try:
            return await self._run(call, timeout)
        except Unavailable as error:
            if not self._fallback or options.get("cost") == "fitted":
                raise
            _log.warning("planning in process, since no server can be reached: %s", error)
            return await asyncio.to_thread(plan_here, lengths, **options)

    async def join(
        self,
        lengths: ArrayLike,
        *,
        job_id: str,
        step: int,
        worker: int,
        world_size: int,
        rank: int | None = None,
        wait: float | None = None,
        timeout: float | None = None,
        **options: Unpack[PlanOptions],
    ) -> Plan:
        """As Client.join."""
        return await self._run(
            join_call(lengths, job_id, step, worker, world_size, rank, wait, **options), timeout
        )

    async def report_step(
        self,
        microbatches: Sequence[MicroBatchTiming],
        *,
        job_id: str,
        step: int,
        memory_limit_bytes: int = 0,
        timeout: float | None = None,
    ) -> Fit:
        """As Client.report_step."""
        return await self._run(report_call(job_id, step, microbatches, memory_limit_bytes), timeout)

    async def close(self) -> None:
        """Ends calls that are under way, too."""
        self._closed = True
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
        if self._closed:
            raise Error("the client is closed")
        limit = self._timeout if timeout is None else seconds("timeout", timeout)
        send: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(
            f"/batchplan.v1.BatchPlanner/{call.method}"
        )
        try:
            answer = await send(call.request, timeout=limit)
        except grpc.aio.AioRpcError as error:
            raise from_status(error.code().value[0], error.details() or "") from None
        except asyncio.CancelledError:
            # So gRPC ends what close() interrupts. A task knows from Python 3.11 on whether it is meant.
            is_meant = getattr(asyncio.current_task(), "cancelling", int)()
            if is_meant or not self._closed:
                raise
            raise Error("the client was closed during the call") from None
        return call.read(answer)
