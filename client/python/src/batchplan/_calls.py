"""The calls of a server: their bytes, and what their answers become. Sent by _retry.py. What it fits to
timings is fitted here too."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from numpy.typing import ArrayLike

from batchplan import _core
from batchplan._checks import flag, members, number, seconds, text, whole
from batchplan._choices import enum
from batchplan._errors import Error, InvalidRequest
from batchplan._local import plan_request
from batchplan._measured import MicroBatchTiming
from batchplan._options import CostModel, LoadCost, PlanOptions, without_none
from batchplan._micro_batch import common_share
from batchplan._pass_plan import PassPlan
from batchplan._plan import Plan
from batchplan._request import Request, kept, to_json

if TYPE_CHECKING:
    from typing_extensions import Unpack

Answer = TypeVar("Answer")
_BY_SERVER = "by a server"


@dataclasses.dataclass(frozen=True)
class Call(Generic[Answer]):
    kind: _core.CallKind
    # Of batchplan.v1.BatchPlanner.
    method: str
    request: bytes
    read: Callable[[bytes], Answer]
    # What a fallback does: the same answer without a server, in so many seconds; None if there is none.
    here: Callable[[float, _core.Stop], Answer] | None = None


@dataclasses.dataclass(frozen=True)
class Fit:
    """What was fitted to a job's micro-batches."""

    # In milliseconds; None as long as a server was told of fewer than 32 micro-batches.
    cost: CostModel | None
    # Root mean square of the residuals over the mean measured time.
    error: float
    # Micro-batches that were ever counted.
    samples: int
    # For the memory limit that was asked about; 0: not known.
    suggested_max_tokens: int
    # Of the latest micro-batches, the share left out as stragglers.
    outlier_share: float
    # Whether this report had been counted before.
    already_counted: bool
    # The cp that cost rests on, ascending. Of one alone what ranks exchange is part of per_token.
    context_sizes: tuple[int, ...] = ()


def _named(request: Request, job_id: str, step: int) -> dict[str, Any]:
    return {**request.fields, "job_id": text("job_id", job_id), "step": str(whole("step", step))}


def plan_call(
    lengths: ArrayLike | Iterable[float], job_id: str, step: int, **options: Unpack[PlanOptions]
) -> Call[Plan]:
    request = Request(lengths, **options)
    request_json = to_json(_named(request, job_id, step))
    needs_server = options.get("cost") == "fitted"
    return Call(
        _core.CallKind.PLAN,
        "PlanBatch",
        _core.encode_plan_batch(request_json, request.arrays),
        lambda answer: Plan(
            _core.decode_plan_batch(answer, request.ranks), request_json, _BY_SERVER, arrays=kept(request.arrays)
        ),
        None if needs_server else lambda seconds, stop: plan_request(request, seconds, stop),
    )


def _run_id(workers: int) -> str:
    # What is no number of workers is refused later, by its name.
    return _core.default_run_id(workers) if 0 <= workers < 2**32 else ""


def join_call(
    lengths: ArrayLike | Iterable[float],
    job_id: str,
    step: int,
    worker: int,
    world_size: int,
    rank: int | None,
    own_part: bool,
    wait: float | None,
    run_id: str | None,
    return_request: bool,
    **options: Unpack[PlanOptions],
) -> Call[Plan]:
    request = Request(lengths, **options)
    of_batch = _named(request, job_id, step)
    own = None if rank is None else whole("data_parallel_rank", rank)
    of_worker, workers = whole("worker", worker), whole("world_size", world_size)
    # Items are numbered through the whole batch, and return_request brings all of it.
    *_, items = request.arrays
    may_have_own = own is not None and not items and not flag("return_request", return_request)
    own_part_only = flag("own_part", own_part) and may_have_own
    fields = without_none(
        request=of_batch,
        worker=of_worker,
        world_size=workers,
        data_parallel_rank=own,
        own_slice_only=own is not None,
        # Left out if not asked for: older servers refuse what they don't know.
        own_part_only=own_part_only or None,
        timeout=None if wait is None else f"{seconds('wait', wait):.9f}s",
        run_id=_run_id(workers) if run_id is None else text("run_id", run_id),
        return_request=flag("return_request", return_request) or None,
    )
    ranks = request.ranks if own is None else 1
    slice_of = None if own is None else range(own, own + 1)

    def read(answer: bytes) -> Plan:
        planned, offsets, item_sequences, _, arrays = _core.decode_join_batch(answer, ranks)
        if len(offsets) != (2 if own_part_only else workers + 1):
            raise Error(f"the answer is none to this join: worker_offsets has {len(offsets)} entries")
        first = 0 if own_part_only else of_worker
        return Plan(
            planned,
            to_json(of_batch),
            _BY_SERVER,
            ranks=slice_of,
            worker_offsets=None if own_part_only else offsets,
            own_part=range(int(offsets[first]), int(offsets[first + 1])),
            item_sequences=dict(item_sequences),
            arrays=arrays,
        )

    return Call(
        _core.CallKind.JOIN,
        "JoinBatch",
        _core.encode_join_batch(to_json(fields), request.arrays),
        read,
    )


def report_call(
    job_id: str,
    step: int,
    microbatches: Sequence[MicroBatchTiming],
    memory_limit_bytes: int,
    plan: Plan | PassPlan | None,
    predicted_step_time: float | None,
    synchronization: str | None,
    dp: int | None,
) -> Call[Fit]:
    fields: dict[str, Any] = {
        "job_id": text("job_id", job_id),
        "step": str(whole("step", step)),
        **_timings(_measured_by(microbatches, plan)),
        "memory_limit_bytes": str(whole("memory_limit_bytes", memory_limit_bytes)),
        **_planned(plan),
    }
    if predicted_step_time is not None:
        fields["predicted_step_time"] = number("predicted_step_time", predicted_step_time)
    if synchronization is not None:
        fields["synchronization"] = enum("synchronization", synchronization)
    if dp is not None:
        fields["data_parallel"] = whole("data_parallel", dp)
    return Call(
        _core.CallKind.REPORT,
        "ReportStep",
        _core.encode_report_step(to_json(fields)),
        lambda answer: _read_fit(_core.decode_report_step(answer)),
    )


def _pass_of(plan: Plan | PassPlan) -> PassPlan:
    if not isinstance(plan, (Plan, PassPlan)):
        raise InvalidRequest(f"plan is {plan!r}; must be a batchplan.Plan, or a pass of one")
    return plan.passes[0] if isinstance(plan, Plan) else plan


def _measured_by(
    microbatches: Sequence[MicroBatchTiming], plan: Plan | PassPlan | None
) -> list[MicroBatchTiming]:
    """The timings, each with the ranks and the part of the model that it is of: the plan's where it says
    none, and the plan has one for all."""
    timings = members("microbatches", microbatches, MicroBatchTiming)
    if plan is None:
        return timings
    one = _pass_of(plan)
    share = common_share(one.stage_shares)
    for place, timing in enumerate(timings):
        if timing.context_parallel == 0 and one.is_dynamic:
            raise InvalidRequest(
                f"microbatches[{place}].context_parallel is 0; it must be that of its group, since those of the "
                "plan differ in size"
            )
        if timing.model_share == 0 and share is None:
            raise InvalidRequest(
                f"microbatches[{place}].model_share is 0; it must be that of its stage, since those of "
                f"the plan's {len(one.stage_shares)} stages differ"
            )
    return [
        dataclasses.replace(
            timing,
            context_parallel=timing.context_parallel or one.context_parallel,
            model_share=timing.model_share or share or 0.0,
        )
        for timing in timings
    ]


def _planned(plan: Plan | PassPlan | None) -> dict[str, Any]:
    """What a report says of the step's plan."""
    if plan is None:
        return {}
    one = _pass_of(plan)
    return without_none(
        predicted_step_time=one.predicted_milliseconds,
        synchronization=enum("synchronization", one.synchronization),
        data_parallel=one.data_parallel,
    )


def fit_costs(microbatches: Sequence[MicroBatchTiming]) -> Fit:
    """The costs of these micro-batches alone, fitted here as a server fits those of a job: stragglers
    are left out, and what the timings can't tell apart is 0. A dozen that differ in how full they are
    and in how long their sequences are tell all coefficients apart.

        fit = batchplan.fit_costs(timings)
        plan = batchplan.plan(lengths, dp=8, max_tokens=16384, cost=fit.cost)

    Raises:
        InvalidRequest: there are none, or a timing is outside the limits of report_step.
    """
    timings = members("microbatches", microbatches, MicroBatchTiming)
    return _read_fit(_core.fit_costs(to_json(_timings(timings))))


def _timings(timings: list[MicroBatchTiming]) -> dict[str, Any]:
    """The timings of a report, and the names of their loads, in the order of the first one's."""
    for place, timing in enumerate(timings):
        if not isinstance(timing.loads, Mapping):
            raise InvalidRequest(
                f"microbatches[{place}].loads is {timing.loads!r}; must be a mapping by name of the load"
            )
    names = list(timings[0].loads) if timings else []
    ordered = []
    for place, timing in enumerate(timings):
        if timing.loads.keys() != set(names):
            others, own = (sorted(map(str, one)) or "none" for one in (timing.loads, names))
            raise InvalidRequest(
                f"microbatches[{place}].loads has {others}; microbatches[0].loads has {own}, and all must have "
                "the same"
            )
        ordered.append(dataclasses.replace(timing, loads={name: timing.loads[name] for name in names}))
    return without_none(
        microbatches=[one.to_dict(place) for place, one in enumerate(ordered)],
        loads=[text(f"loads[{place}]", name) for place, name in enumerate(names)] or None,
    )


def _read_fit(answer: str) -> Fit:
    fields = json.loads(answer)
    fitted = fields.get("fitted")
    return Fit(
        cost=fitted
        and CostModel(
            fitted["perToken"],
            fitted["perTokenSquared"],
            fitted["perMicrobatch"],
            per_sequence=fitted["perSequence"],
            exchange=tuple((one["upToSize"], one["perToken"]) for one in fitted["exchange"]),
            loads=tuple(LoadCost(one["load"], one["perUnit"]) for one in fitted["loads"]),
        ),
        error=fields["fitError"],
        samples=int(fields["samples"]),
        suggested_max_tokens=fields["suggestedMaxTokensPerMicrobatch"],
        outlier_share=fields["outlierShare"],
        already_counted=fields["alreadyCounted"],
        context_sizes=tuple(fields["contextSizes"]),
    )
