"""Plans the batches of LLM training: within the token budget always, balanced by what they cost.

    import batchplan

    plan = batchplan.plan(lengths, dp=8, max_tokens=16384)
    for microbatch in plan.rank(0):
        train(tokens[microbatch.indices], microbatch.cu_seqlens)

A plan is a pure function of what is asked: the same arguments give the same plan, bit for bit, here
and from every batchplan server.
"""

from batchplan import _core
from batchplan._async_client import AsyncClient
from batchplan._calls import Fit, fit_costs
from batchplan._channel import Tls
from batchplan._client import Client
from batchplan._common_prefixes import common_prefixes
from batchplan._errors import (
    AccessDenied,
    DeadlineExceeded,
    Error,
    FailedPrecondition,
    InvalidRequest,
    Overloaded,
    TlsError,
    Unavailable,
)
from batchplan._explain import Cause, Explanation, LoneSequence
from batchplan._local import plan
from batchplan._measured import Comparison, MicroBatchTiming
from batchplan._options import (
    DEFAULT_COST,
    CostModel,
    DynamicContext,
    LoadCost,
    Pass,
    Pipeline,
    PlanOptions,
    Selection,
)
from batchplan._micro_batch import DealtItems, MicroBatch
from batchplan._pass_plan import PassPlan
from batchplan._plan import Plan
from batchplan._plan_metrics import (
    ExcludedSequence,
    LoadMetrics,
    MiniBatchDecision,
    PlanMetrics,
    SlotsTried,
)
from batchplan._pool import Pool

__version__: str = _core.version()

__all__ = [
    "DEFAULT_COST",
    "AccessDenied",
    "AsyncClient",
    "Cause",
    "Client",
    "Comparison",
    "CostModel",
    "DealtItems",
    "DeadlineExceeded",
    "DynamicContext",
    "Error",
    "ExcludedSequence",
    "Explanation",
    "FailedPrecondition",
    "Fit",
    "InvalidRequest",
    "LoadCost",
    "LoadMetrics",
    "LoneSequence",
    "MicroBatch",
    "MicroBatchTiming",
    "MiniBatchDecision",
    "Overloaded",
    "Pass",
    "PassPlan",
    "Pipeline",
    "Plan",
    "PlanMetrics",
    "PlanOptions",
    "Pool",
    "Selection",
    "SlotsTried",
    "Tls",
    "TlsError",
    "Unavailable",
    "common_prefixes",
    "fit_costs",
    "plan",
]
