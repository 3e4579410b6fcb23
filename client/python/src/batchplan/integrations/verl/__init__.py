"""For verl 0.9.1, and its main branch of August 2026: one plan of ranks and micro-batches.

    export BATCHPLAN=1

is all that a run with dynamic batch sizes needs. Those are actor_rollout_ref.actor.use_dynamic_bsz=True, with
ppo_max_token_len_per_gpu beside it; verl's default, False, is refused by name. verl loads batchplan's plugin in
every process (an entry point of the group "verl.plugins"; VERL_USE_EXTERNAL_PLUGINS=none would prevent it).
The driver then plans each batch as a whole, where verl's first divides it among ranks and later, on every
rank, into micro-batches. The batch carries the plan in a field of its own, and workers follow it. Where a
batch has none, or it holds no more, because sequences were left out, repeated or exchanged since, all ranks
see that together and divide what they have, within the budget. Each mini-batch keeps the sequences that verl
gave it. With strategy megatron and a pipeline_model_parallel_size the plan is one of pipelines, virtual stages
included. With its dynamic_context_parallel all ranks have the whole batch, and plan its groups instead. What a plan
can't be kept with, such as actor.shuffle, is refused by name. The trainer's metrics get
batchplan/train_microbatches, of a rank, and batchplan/train_step_efficiency, as predicted.

Ray's processes have the variables from the driver where main_ppo starts Ray. Elsewhere, as for
sft_trainer_ray on a cluster that runs already, they belong into its runtime environment: all workers
have them or none, since the two kinds do not agree on numbers of micro-batches in the same way.

    BATCHPLAN_COST="24576,1"        what a sequence of L tokens costs: 24576 * L + L ** 2, then what a
                                    micro-batch costs beside; the default is that of verl, a model of 7B, on
                                    pipelines with the cost of 1,024 tokens a micro-batch
    BATCHPLAN_EFFORT="default"      or "fast", "thorough"
    BATCHPLAN_LIMIT="patches=24576" image patches of a micro-batch, at most, over all ranks that share its
                                    sequences, in training and log-probabilities alike
    BATCHPLAN_LOAD_COST="patches=4915"
                                    what a patch costs its encoder, in the unit of BATCHPLAN_COST, which is
                                    then set too; "patches=4915:separate": ranks wait for each other after
                                    the encoder, as in FSDP. Pipelines have no such phases
    BATCHPLAN_MINI_BATCHES="verl"   or "in_order": which sequences a mini-batch has, where a batch has
                                    several. verl's own sorts each rank by length first, so that
                                    some mini-batches have the short sequences and others the long
                                    ones: cheap, and a bias, since a sequence's gradient step depends
                                    on its length. "in_order" takes them as the batch has them

Patches are planned by where one of the two variables is set: those of the batch's multi_modal_inputs, t * h * w of
each image_grid_thw and video_grid_thw. Models without these, and dynamic_context_parallel, are refused by name then.
Trainers over a TransferQueue have the sequences' tags alone: verl's agent loops put the number there. Where another
one does not, sequences stay on verl's ranks, and the workers plan their micro-batches within the limit.

The functions stand here by themselves too:

    - from verl.utils.seqlen_balancing import get_seqlen_balanced_partitions, rearrange_micro_batches
    + from batchplan.integrations.verl import get_seqlen_balanced_partitions, rearrange_micro_batches
"""

from __future__ import annotations

from batchplan.integrations._agreement import by_all_reduce
from batchplan.integrations.verl._micro_batches import rearrange_micro_batches
from batchplan.integrations.verl._partitions import get_micro_batches, get_seqlen_balanced_partitions
from batchplan.integrations.verl._patches import install

__all__ = [
    "by_all_reduce",
    "get_micro_batches",
    "get_seqlen_balanced_partitions",
    "install",
    "rearrange_micro_batches",
]
