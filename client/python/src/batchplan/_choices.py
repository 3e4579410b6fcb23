"""The words that options may be, as types and as the wire contract has them."""

from __future__ import annotations

from typing import Literal, get_args

from batchplan._checks import did_you_mean, text
from batchplan._errors import InvalidRequest

# A system to reproduce, or "balanced", which is none. Servers may know more than this version.
Preset = Literal[
    "balanced", "nemo_rl_packing", "nemo_rl_dynamic", "roll_packing", "roll_dynamic", "mindspeed_rl", "verl",
    "megatron_dynamic_cp", "areal_tree", "trl_tree", "art_prefix_tree",
]
Packer = Literal[
    "balanced", "concatenative", "first_fit_decreasing", "first_fit_shuffle", "modified_first_fit_decreasing",
    "best_fit_decreasing", "karmarkar_karp",
]
RowPadding = Literal["none", "longest", "capacity", "buckets"]
Scan = Literal["sorted", "optimal"]
Sharding = Literal[
    "balanced", "deal_bins", "stride_sorted", "karmarkar_karp", "lpt", "contiguous", "megatron_dynamic_cp",
    "areal_tree", "trl_tree", "art_prefix_tree",
]
MicroBatchOrder = Literal["as_assigned", "largest_first", "small_at_both_ends", "pipeline"]
Order = Literal["preserved", "shuffled", "stratified"]
LastMiniBatch = Literal["exact", "smaller"]
Schedule = Literal["one_f_one_b", "interleaved"]
BalanceOn = Literal["tokens", "cost"]
EqualCounts = Literal["exact", "within_one"]
KindsPerSlot = Literal["any", "together", "alike"]
Groups = Literal["ignore", "same_mini_batch", "same_rank", "same_microbatch"]
Synchronization = Literal["lockstep", "accumulated"]
Effort = Literal["fast", "default", "thorough"]
Overlong = Literal["reject", "truncate", "drop", "alone"]

# By option, or field of an option: what the names of the wire contract's values begin with, and how they go on.
ENUMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "packer": ("PACKER", get_args(Packer)),
    "rows": ("ROW_PADDING", get_args(RowPadding)),
    "scan": ("SCAN", get_args(Scan)),
    "sharding": ("SHARDING", get_args(Sharding)),
    "order": ("MICROBATCH_ORDER", get_args(MicroBatchOrder)),
    # Of a plan; that of a pass is also called order.
    "mini_batch_order": ("ORDER", get_args(Order)),
    "last_mini_batch": ("LAST_MINI_BATCH", get_args(LastMiniBatch)),
    "schedule": ("PIPELINE_SCHEDULE", get_args(Schedule)),
    "balance_on": ("BALANCE_ON", get_args(BalanceOn)),
    "sequence_counts": ("EQUAL_COUNTS", get_args(EqualCounts)),
    "kinds_per_slot": ("KINDS_PER_SLOT", get_args(KindsPerSlot)),
    "groups": ("GROUP_POLICY", get_args(Groups)),
    "synchronization": ("SYNCHRONIZATION", get_args(Synchronization)),
    "effort": ("EFFORT", get_args(Effort)),
    "overlong": ("OVERLONG_POLICY", get_args(Overlong)),
}


def enum(field: str, word: str | None, kind: str | None = None) -> str | None:
    """ "fast" of effort as EFFORT_FAST, the name on the wire."""
    if word is None:
        return None
    prefix, words = ENUMS[kind or field]
    if text(field, word) not in words:
        raise InvalidRequest(
            f'{field} is "{word}", which is none of {", ".join(words)}{did_you_mean(word, words)}'
        )
    return f"{prefix}_{word.upper()}"
