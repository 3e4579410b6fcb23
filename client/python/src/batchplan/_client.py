"""Plans by a server."""

from __future__ import annotations

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


class Client:
    """A connection to a batchplan server, or in turn to the replicas that a name stands for.

        with batchplan.Client("dns:///planner:50051") as client:
            plan = client.plan(lengths, dp=8, max_tokens=16384, job_id="grpo-7b", step=7)

    Calls are retried where a replica is lost or its queue is full. Any number of threads may call at
    the same time. It must not be used in a process that was forked after it was made.
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
        """
        Args:
            target: host:port, or any target of gRPC's. Nothing is connected before the first call.
            tls: None: plain text.
            token: sent with every call, for a server with --auth_tokens; needs tls.
            timeout: seconds that a call may take, retries included, unless it says otherwise.
            fallback: plan in this process where no server can be reached: the same plan. Joins and
                fitted costs need a server.
        """
        self._timeout = seconds("timeout", timeout)
        self._fallback = fallback
        self._closed = False
        check_target(target)
        credentials = credentials_for(tls, token)
        options = options_for(tls)
        self._channel = (
            grpc.insecure_channel(target, options)
            if credentials is None
            else grpc.secure_channel(target, credentials, options)
        )

    def plan(
        self,
        lengths: ArrayLike,
        *,
        job_id: str = "",
        step: int = 0,
        timeout: float | None = None,
        **options: Unpack[PlanOptions],
    ) -> Plan:
        """As batchplan.plan, by the server.

        Args:
            job_id, step: for the server's metrics, logs, and the page of recent plans.
            timeout: in seconds.

        Raises:
            InvalidRequest, AccessDenied, Overloaded, DeadlineExceeded, Unavailable, Error.
        """
        call = plan_call(lengths, job_id, step, **options)
        try:
            return self._run(call, timeout)
        except Unavailable as error:
            if not self._fallback or options.get("cost") == "fitted":
                raise
            _log.warning("planning in process, since no server can be reached: %s", error)
            return plan_here(lengths, **options)

    def join(
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
        """One plan of a batch that no worker has whole. Each calls this with its own lengths, and all
        get the plan when the last one has. The same call again gets the same plan.

        Args:
            lengths: this worker's, maybe none. The batch is all workers' lengths, by worker.
            job_id, step: what the workers meet under.
            worker, world_size: this one, from 0, of so many.
            rank: get only the micro-batches of this data-parallel rank.
            wait: seconds to wait for the others, so that the server can name who is missing; None: as
                long as the call.

        Returns:
            the plan, with worker_offsets.

        Raises:
            DeadlineExceeded: others did not join in time; the message says who.
            Error: another worker asked for something else; the message says what and which.
        """
        return self._run(
            join_call(lengths, job_id, step, worker, world_size, rank, wait, **options), timeout
        )

    def report_step(
        self,
        microbatches: Sequence[MicroBatchTiming],
        *,
        job_id: str,
        step: int,
        memory_limit_bytes: int = 0,
        timeout: float | None = None,
    ) -> Fit:
        """Tells what micro-batches took; the server fits the job's costs to it, and cost="fitted" plans
        with them. With memory_limit_bytes, and peaks reported, the fit suggests a budget."""
        return self._run(report_call(job_id, step, microbatches, memory_limit_bytes), timeout)

    def close(self) -> None:
        """Ends calls that are under way, too."""
        self._closed = True
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self, call: Call[Answer], timeout: float | None) -> Answer:
        if self._closed:
            raise Error("the client is closed")
        limit = self._timeout if timeout is None else seconds("timeout", timeout)
        send: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(
            f"/batchplan.v1.BatchPlanner/{call.method}"
        )
        try:
            answer = send(call.request, timeout=limit)
        except grpc.RpcError as error:
            raise from_status(error.code().value[0], error.details() or "") from None
        return call.read(answer)
