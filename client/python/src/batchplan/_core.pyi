import enum
from collections.abc import Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

_Uint32s = NDArray[numpy.uint32]
_Float64s = NDArray[numpy.float64]
# Of the manifest: lengths, group_ids, ranks, ages, shared_prefixes, shared_with, kinds, loads, items.
Arrays = tuple[
    _Uint32s,
    _Uint32s,
    _Uint32s,
    _Uint32s,
    _Uint32s,
    _Uint32s,
    _Uint32s,
    list[tuple[str, _Float64s]],
    list[tuple[str, _Uint32s, _Float64s]],
]

class Planned:
    def head(self) -> dict[str, Any]: ...
    def ranks(self) -> int: ...
    def deferred(self) -> _Uint32s: ...
    def sequence_index(self, number: int) -> _Uint32s: ...
    def microbatch_offsets(self, number: int) -> _Uint32s: ...
    def microbatches_per_rank(self, number: int) -> _Uint32s: ...
    def row_widths(self, number: int) -> _Uint32s: ...
    def sequence_lengths(self, number: int) -> _Uint32s: ...
    def context_sizes(self, number: int) -> _Uint32s: ...
    def shared_tokens(self, number: int) -> _Uint32s: ...
    def item_ranks(self, number: int) -> list[tuple[str, _Uint32s]]: ...

# Tensors are addresses, which the caller has checked and keeps; else DLPack's capsules.
class Field:
    def __init__(
        self,
        content: int,
        source: int,
        destination: int,
        element_size: int,
        elements_per_token: int,
        width: int,
        token_shift: int,
        pad_value: bytes,
    ) -> None: ...

class RowLayout:
    num_tokens: int
    max_seqlen: int
    max_seqlen_padded: int
    last_index: int
    def __init__(
        self,
        lengths: _Uint32s,
        indices: _Uint32s,
        shared: _Uint32s | None,
        length_multiple: int,
        row_width: int,
        sequence_width: int,
    ) -> None: ...
    def arrays(self) -> NDArray[numpy.int32]: ...
    def has_tokens(self, offsets: int, num_rows: int, num_tokens: int, gathered: bool) -> bool: ...
    def subtree_ends(self) -> NDArray[numpy.int32]: ...

class Row:
    def __init__(
        self,
        backend: int,
        layout: RowLayout,
        arrays: int,
        error_word: int,
        context_parallel: int,
        context_parallel_rank: int | None,
        zigzag: bool,
    ) -> None: ...
    def pack(
        self,
        fields: Sequence[Field],
        indexed: bool,
        offsets: int,
        num_rows: int,
        num_tokens: int,
        stream: int,
    ) -> None: ...
    def unpack(
        self,
        fields: Sequence[Field],
        indexed: bool,
        offsets: int,
        num_rows: int,
        num_tokens: int,
        stream: int,
    ) -> None: ...
    def unpack_gradient(
        self,
        source: object,
        destination: object,
        elements_per_token: int,
        width: int,
        indexed: bool,
        num_rows: int,
        stream: int,
    ) -> None: ...
    def sum(
        self,
        values: object,
        weights: object | None,
        sums: object,
        weight_sums: object,
        workspace: object | None,
        stream: int,
    ) -> None: ...
    def workspace_size(self) -> int: ...

def backend_status(backend: int) -> int: ...
def backend_error(backend: int) -> str: ...
def status_string(status: int) -> str: ...

class Stop:
    def request(self) -> bool: ...

class AskedPlan:
    def __init__(self, request_json: str, has_ranks: bool) -> None: ...

def plan_batch(
    asked: AskedPlan,
    arrays: Arrays,
    watches_signals: bool = False,
    seconds: float | None = None,
    stop: Stop | None = None,
) -> Planned: ...
def encode_plan_batch(request_json: str, arrays: Arrays) -> bytes: ...
def encode_join_batch(request_json: str, arrays: Arrays) -> bytes: ...
def encode_report_step(request_json: str) -> bytes: ...
def decode_plan_batch(response: bytes, ranks: int) -> Planned: ...

# The plan; of what workers joined where each one's part begins, and of each dealt load the sequences of items; and
# the request with its arrays, if it was asked for, else "" and None.
_Joined = tuple[Planned, _Uint32s, list[tuple[str, _Uint32s]], str, Arrays | None]

def decode_join_batch(response: bytes, ranks: int) -> _Joined: ...
def decode_saved_plan(saved: bytes, ranks: int) -> _Joined: ...
def encode_saved_plan(
    plan: Planned,
    request_json: str,
    arrays: Arrays | None,
    worker_offsets: _Uint32s,
    item_sequences: list[tuple[str, _Uint32s]],
) -> bytes: ...
def decode_report_step(response: bytes) -> str: ...
def common_prefixes_32(
    arrays: list[NDArray[numpy.int32]], minimum: int
) -> tuple[_Uint32s, _Uint32s]: ...
def common_prefixes_64(
    arrays: list[NDArray[numpy.int64]], minimum: int
) -> tuple[_Uint32s, _Uint32s]: ...
def common_prefixes_of_lists(
    lists: list[list[int] | tuple[int, ...]], minimum: int
) -> tuple[_Uint32s, _Uint32s]: ...
def fit_costs(request_json: str) -> str: ...

# Of proto/batchplan/v1/call_rules.h, in seconds.
KEEPALIVE_TIME: float
KEEPALIVE_TIMEOUT: float
CONNECT_TIMEOUT: float
RESOLVE_INTERVAL: float
INITIAL_BACKOFF: float
MAX_BACKOFF: float
PROBE_TIMEOUT: float

class CallKind(enum.Enum):
    PLAN = 0
    PLAN_WITH_FALLBACK = 1
    JOIN = 2
    REPORT = 3

class Action(enum.Enum):
    RETRY = 0
    RETURN = 1
    FALL_BACK = 2

class CallAttempts:
    def __init__(self, kind: CallKind, timeout: float) -> None: ...
    def timeout(self, elapsed: float) -> float: ...
    def after(
        self, code: int, pushback: float | None, elapsed: float, random: float
    ) -> tuple[Action, float]: ...

def is_no_answer(code: int) -> bool: ...
def is_too_large(message: str) -> bool: ...
def default_run_id(world_size: int) -> str: ...

# The request without what does not influence the plan; of each pass whether it is padded.
def read_plan_request(request_json: str) -> tuple[str, list[bool]]: ...
def plan_page(request_json: str, response_json: str, where: str, arrays: Arrays | None) -> str: ...

# Of a pass: the predicted, ideal and least step time; causes, by name, time and whether every plan has them; what
# multiples, required micro-batches and twice the budget take; lone sequences; sentences.
_Explanation = tuple[
    float,
    float,
    float,
    list[tuple[str, float, bool]],
    float,
    float,
    float,
    list[tuple[int, int, int, int, float]],
    list[str],
]

def explain_plan(
    request_json: str, response_json: str, arrays: Arrays
) -> tuple[list[_Explanation], list[str]]: ...
def version() -> str: ...
