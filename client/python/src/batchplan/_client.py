"""Plans by a server."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

import grpc
from numpy.typing import ArrayLike

from batchplan import _fork
from batchplan._calls import Answer, Call, Fit, join_call, plan_call, report_call
from batchplan._channel import Tls, failure_of, open_channel
from batchplan._checks import seconds
from batchplan._errors import Error, Unavailable
from batchplan._measured import MicroBatchTiming
from batchplan._option_help import takes_options
from batchplan._options import PlanOptions
from batchplan._pass_plan import PassPlan
from batchplan._plan import Plan
from batchplan._retry import Attempt, Caller, Failure, Pause, Step
from batchplan._tls_mistake import TlsMistake

if TYPE_CHECKING:
    from typing_extensions import Unpack

# What gRPC gets beyond its time to say itself that this is over.
_LATE = 0.5


class Client:
    """A connection to a batchplan server, or in turn to the replicas that a name stands for.

        with batchplan.Client("dns:///planner:50051") as client:
            plan = client.plan(lengths, dp=8, max_tokens=16384, job_id="grpo-7b", step=7)

    Calls are made again until their time is over where a replica is lost, drains or hangs, no name
    resolves, or a queue is full. Any number of threads may call at the same time. A process that is
    forked makes clients of its own; where gRPC hangs there, as it may if another thread called it at the
    time of the fork, they raise Unavailable, or fall back, when their time is over.
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
            timeout: seconds that a call may take, retries and the fallback included, unless it says
                otherwise.
            fallback: plan in this process where no server makes the plan: the same one. Servers get a
                few attempts, 15 s and half of the timeout at most; once none answered, 1 s until one
                does. Joins and fitted costs need a server, and what is wrong with the request, the
                token or the certificates is raised.
        """
        self._timeout = seconds("timeout", timeout)
        self._process = os.getpid()
        self._falls_back = fallback
        try:
            self._channel: grpc.Channel = _fork.use_grpc(
                lambda: open_channel(grpc, target, tls, token), self._timeout
            )
        except _fork.Hangs:
            raise Unavailable(_fork.HANGS) from None
        self._caller = Caller(fallback=fallback, tls_mistake=TlsMistake(target, tls))
        self._closing = threading.Event()

    @takes_options()
    def plan(
        self,
        lengths: ArrayLike | Iterable[float],
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
            options: those of batchplan.plan.

        Raises:
            InvalidRequest, AccessDenied, FailedPrecondition, Overloaded, DeadlineExceeded,
            Unavailable, TlsError, Error.
        """
        return self._run(plan_call(lengths, job_id, step, **options), timeout)

    @takes_options()
    def join(
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
        """One plan of a batch that no worker has whole. Each calls this with its own lengths, and all
        get the plan when the last one has. The same call again gets the same plan.

        Args:
            lengths: this worker's, maybe none. The batch is all workers' lengths, by worker.
            job_id, step: what the workers meet under.
            worker, world_size: this one, from 0, of so many.
            rank: get only the micro-batches of this data-parallel rank; where groups differ in size, of this
                rank of the pool.
            own_part: with rank, get what else is said of sequences and workers only of this worker's and its
                rank's, so that answers do not grow with the world; False, and with items or return_request: of all,
                with worker_offsets.
            wait: seconds to wait for the others, so that the server can name who is missing; None: as
                long as the call.
            run_id: of this start of the job: workers of different runs never meet. None: Slurm's job,
                step and restart count where they are the same for all workers, else no run;
                batchplan.torch.run_id() makes one elsewhere. "": none.
            return_request: get what all workers sent, too, so that the plan can explain() itself, and its
                micro-batches know their loads: 4 bytes a sequence, and as many for what else sequences have.
            timeout: in seconds.
            options: those of batchplan.plan; all workers agree on them.

        Returns:
            the plan, with own_part, and without `rank` with worker_offsets.

        Raises:
            DeadlineExceeded: others did not join in time; the message says who.
            FailedPrecondition: a later run of the job has superseded this one.
            Error: another worker asked for something else; the message says what and which.
        """
        return self._run(
            join_call(
                lengths, job_id, step, worker, world_size, rank, own_part, wait, run_id, return_request, **options
            ),
            timeout,
        )

    def report_step(
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
        """Tells what micro-batches took; the server fits the job's costs to it, and cost="fitted" plans
        with them. Of a step that one report holds as a whole, with ranks and slots, it also shows what
        the step took beside what was predicted.

        A report of the same step with the same times is not counted again (Fit.already_counted), nor
        measured: ranks, slots or a plan that the first one lacked, or had wrong, can't be sent later.

        Args:
            microbatches: one rank's own, or all of the step; MicroBatch.timing() makes them.
            job_id, step: whose they are.
            memory_limit_bytes: with peaks reported, the fit suggests a budget for so much memory.
            plan: what the micro-batches are of, or the pass if that is not the first one. It has what
                follows, predicted_step_time where it was made with cost="fitted"; and context_parallel
                and model_share of timings that don't say theirs.
            predicted_step_time: in milliseconds: plan.metrics' own, where it was made with costs in these.
            synchronization: "lockstep", the default, or "accumulated".
            dp: data-parallel ranks.
            timeout: in seconds.

        Raises:
            InvalidRequest, AccessDenied, Overloaded, DeadlineExceeded, Unavailable, TlsError, Error.
        """
        return self._run(
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
        raise TypeError("a Client can't be pickled; make one in each process")

    def close(self) -> None:
        """Ends calls that are under way, too."""
        self._closing.set()
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
        if os.getpid() != self._process:
            raise Error(_fork.USED_AFTER_FORK)
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
            done = self._do(step)

    def _do(self, step: Step) -> Any:
        if isinstance(step, Attempt):
            return self._attempt(step)
        if isinstance(step, Pause):
            return self._closing.wait(step.seconds)
        return step.run()

    def _attempt(self, attempt: Attempt) -> bytes | Failure:
        try:
            self._check_open()
            return _fork.use_grpc(lambda: self._send(attempt), attempt.timeout + _LATE)
        except _fork.Hangs:
            if self._falls_back:
                return Failure(grpc.StatusCode.UNAVAILABLE.value[0], _fork.HANGS)
            raise Unavailable(_fork.HANGS) from None
        except grpc.RpcError as error:
            self._check_open()
            return failure_of(error)
        except ValueError:
            # Of a channel that is closed.
            self._check_open()
            raise

    def _send(self, attempt: Attempt) -> bytes:
        send: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(attempt.method)
        return send(attempt.request, timeout=attempt.timeout)

    def _check_open(self) -> None:
        if self._closing.is_set():
            raise Error("the client was closed during the call")
