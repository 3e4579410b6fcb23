"""Every option of a plan: where it stands in a request, and what one reads of it."""

from __future__ import annotations

from typing import Any, NamedTuple


class Option(NamedTuple):
    name: str
    # Of a PlanBatchRequest, without positions; "": options of other names are made of it.
    field: str
    # None: it follows from others, such as preset.
    default: Any
    unit: str
    limit: str
    text: str

    @property
    def described(self) -> str:
        """In one line."""
        default = "" if self.default is None else f"default {self.default!r}"
        rules = "; ".join(filter(None, (self.unit, self.limit, default)))
        return f"{self.text} [{rules}]" if rules else self.text


# In the order in which they are shown.
OPTIONS = (
    Option(
        "max_tokens", "passes.max_tokens_per_microbatch", None, "tokens", "at least 1; this or passes is needed",
        "The budget of a micro-batch on one rank, padding included.",
    ),
    Option(
        "passes", "passes", None, "batchplan.Pass each", "1 to 64; this or max_tokens is needed",
        "The uses of the batch, where there are several, such as training and log-probabilities, or where one has "
        "more to say than max_tokens.",
    ),
    Option(
        "preset", "preset", "balanced", "", "see server/planner/presets.md",
        "batchplan's own way, or a system to reproduce: megatron_dynamic_cp goes with dynamic_cp, and areal_tree, "
        "trl_tree and art_prefix_tree with shared prefixes.",
    ),
    Option("dp", "topology.data_parallel", 1, "ranks", "1 to 65,536", "Data-parallel ranks."),
    Option(
        "cp", "topology.context_parallel", 1, "ranks", "1 to 65,536",
        "Context-parallel ranks, which share a micro-batch. Lengths are rounded up to a multiple of 2 * cp, with "
        "sequence_parallel of 2 * cp * tp.",
    ),
    Option("tp", "topology.tensor_parallel", 1, "ranks", "1 to 65,536", "Tensor-parallel ranks."),
    Option(
        "pp", "topology.pipeline_parallel", 1, "stages", "1 to 65,536; pp * vpp up to 512", "Stages of a pipeline."
    ),
    Option(
        "vpp", "topology.virtual_pipeline", 1, "stages", "at least 1; pp * vpp up to 512",
        "Virtual stages of each stage of the pipeline.",
    ),
    Option(
        "sequence_parallel", "topology.sequence_parallel", False, "", "",
        "Whether tensor-parallel ranks split activations along the sequence: lengths are rounded up to a multiple "
        "of tp too.",
    ),
    Option(
        "dynamic_cp", "topology.dynamic_context", False, "", "",
        "The dp * cp ranks are one pool, of which each micro-batch takes a group of its own size, the sizes as they "
        "say; True: any. The budget stays that of cp ranks.",
    ),
    Option(
        "pipeline", "pipeline", None, "", "with pp above 1",
        "Where stages of a pipeline differ, or take time to send.",
    ),
    Option(
        "group_ids", "manifest.group_ids", None, "one a sequence", "0 to 4,294,967,295",
        "Sequences of the same number belong together; `groups` says where.",
    ),
    Option(
        "groups", "mini_batches.groups", "ignore", "", "with group_ids",
        "What keeps the sequences of a group together: their mini-batch, rank or micro-batch.",
    ),
    Option(
        "ranks", "manifest.ranks", None, "one a sequence", "0 to dp - 1",
        "The rank that has each sequence already. Only micro-batches are planned then, those of all ranks together; "
        "no pass may set a sharding, and a preset's gives way.",
    ),
    Option(
        "prompt_lengths", "", None, "tokens, one a sequence", "the same in a group",
        "With group_ids: all of a group begin with so many common tokens, which a row computes once "
        "(MicroBatch.shared_tokens). With packed rows alone, and not with dynamic_cp.",
    ),
    Option(
        "shared_prefixes", "manifest.shared_prefixes", None, "tokens, one a sequence", "up to either length",
        "In place of prompt_lengths: the first tokens that each sequence has in common with an earlier one, 0 for "
        "none; common_prefixes() finds them.",
    ),
    Option(
        "shared_with", "manifest.shared_with", None, "one a sequence", "an earlier position",
        "That earlier sequence. Without it, it is the first of the group.",
    ),
    Option(
        "loads", "manifest.loads", None, "by name, one a sequence", "8 at most; each at least 0",
        "What sequences bring to a micro-batch beside tokens, such as image patches or audio frames. "
        "CostModel.loads says what they cost, `limits` what a micro-batch has of them at most; a load without "
        "either is measured alone (PlanMetrics.loads).",
    ),
    Option(
        "items", "manifest.items", None, "by name, a list a sequence", "8 at most with loads; each at least 0",
        "Loads that come in parts, such as images: a list or array of parts for each sequence, maybe none. Such a "
        "load can be dealt (LoadCost); its items are numbered in this order, one sequence after the other.",
    ),
    Option(
        "limits", "passes.limits", None, "by name of a load", "above 0; with max_tokens, or in each Pass",
        "The most that a micro-batch may have of it.",
    ),
    Option(
        "kinds", "manifest.kinds", None, "one a sequence", "0 to 4,294,967,295",
        "0 of text and others as you like: what Pass.kinds_per_slot speaks of.",
    ),
    Option(
        "ages", "manifest.ages", None, "steps, one a sequence", "0 to 4,294,967,295",
        "Steps since the weights that made it: what selection.max_age is held against.",
    ),
    Option(
        "selection", "selection", None, "", "",
        "Which part of the lengths is planned; the others wait (Plan.deferred). All of them, unless set.",
    ),
    Option(
        "mini_batch_size", "mini_batches.size", 0, "sequences", "a divisor of the batch, unless last_mini_batch is set",
        "Sequences of a mini-batch over all ranks, one optimizer step each; 0: one mini-batch.",
    ),
    Option(
        "mini_batch_groups", "mini_batches.group_count", 0, "groups", "a divisor of the groups, as above",
        "In place of mini_batch_size: groups of group_ids in a mini-batch, however many sequences they have.",
    ),
    Option(
        "last_mini_batch", "mini_batches.last", "exact", "", "",
        "Where mini-batches don't divide the batch, that is refused, or the last one is smaller.",
    ),
    Option(
        "order", "mini_batches.order", "preserved", "", "",
        "How sequences come to mini-batches: in the batch's order; in a random one; or by length, so that "
        "mini-batches have like lengths, and their gradients are biased to these.",
    ),
    Option("shuffle", "", False, "", "", 'True is order="shuffled".'),
    Option(
        "max_delay", "mini_batches.max_delay", 0, "mini-batches", "",
        "How much later than its place a sequence, or a group that stays together, may be trained, so that long "
        "ones of several mini-batches meet in one.",
    ),
    Option(
        "seed", "mini_batches.seed", 0, "", "0 to 2^64 - 1",
        "Of every random choice: the same seed gives the same plan.",
    ),
    Option(
        "cost", "cost_model", None, "", "",
        "What balance is measured by. Unless set, that of a model of 7B parameters, with pp above 1 or dynamic_cp "
        "also 1,024 tokens' cost a micro-batch, with dynamic_cp also what groups exchange; \"fitted\": what a "
        "server fitted to what the job reported.",
    ),
    Option(
        "synchronization", "synchronization", None, "", "default 'lockstep', with pp 'accumulated'",
        "Ranks wait for each other at every micro-batch, or at the end of a mini-batch.",
    ),
    Option("effort", "effort", "default", "", "", "How hard the planner tries."),
    Option(
        "overlong", "overlong", "reject", "", "",
        "What becomes of a sequence beyond the budget: an error, it is cut, left out, or alone in a micro-batch above "
        "the budget, which no other one exceeds.",
    ),
    Option(
        "allow_empty_microbatches", "allow_empty_microbatches", False, "", "",
        "A rank with too few sequences runs empty micro-batches.",
    ),
    Option(
        "pad_to", "manifest.pad_to", 0, "tokens", "at least the longest sequence",
        "The width that metrics compare with; 0: the longest sequence.",
    ),
)  # fmt: skip

# Of options, and of what is no option, the path in a request without positions: fields whose last name in Python
# is another one. What stands below a field is called as there.
OTHER_FIELDS = {
    "lengths": "manifest.lengths",
    "max_sequences": "passes.max_sequences_per_microbatch",
    "packer": "passes.packed.packer",
    "rows": "passes.packed.rows",
    "buckets": "passes.packed.buckets",
    "scan": "passes.padded.scan",
}
FIELDS = {one.name: one.field for one in OPTIONS if one.field} | OTHER_FIELDS
# Of these, positions and names below are those of the request alone.
BY_NAME = ("loads", "items", "limits")
