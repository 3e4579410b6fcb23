"""What verl's configuration says of how a batch is gone through, and what a plan can't be kept with."""

from __future__ import annotations

from typing import Any

from batchplan.integrations._pipeline import Stages
from batchplan.integrations._slots import options_of
from batchplan.integrations.verl import _settings
from batchplan.integrations.verl._joint import Pass, Wanted

# By strategy, what names the size of the group of ranks that share sequences, in the engine's part of the
# configuration: workers multiply the budget by it.
_SEQUENCE_PARALLEL = {
    "fsdp": "ulysses_sequence_parallel_size",
    "fsdp2": "ulysses_sequence_parallel_size",
    "megatron": "context_parallel_size",
    "veomni": "ulysses_parallel_size",
    "torchtitan": "tensor_parallel_size",
}
_ACTOR = "actor_rollout_ref.actor"


class Unsupported(ValueError):
    """The configuration asks for what no plan of a whole batch can be kept with."""

    def __init__(self, key: str, value: Any, why: str, instead: str) -> None:
        super().__init__(f"{key} is {value}: {why}; {instead}, or unset BATCHPLAN")


def setting(config: Any, key: str, default: Any = None) -> Any:
    """What stands in a configuration at a key with dots; the default where nothing does."""
    for name in key.split("."):
        if config is None:
            return default
        config = config.get(name) if hasattr(config, "get") else getattr(config, name, None)
    return default if config is None else config


def has_dynamic_groups(engine: Any) -> bool:
    """Whether all ranks get the whole batch, of which Megatron's engine then makes groups."""
    return bool(setting(engine, "dynamic_context_parallel", False))


def actors_engine(config: Any) -> Any:
    """Megatron's part of the actor's configuration."""
    return setting(config, f"{_ACTOR}.megatron")


def check_ppo(config: Any) -> None:
    """Refuses what is known before the first batch.

    Raises:
        Unsupported: with the key and what to set instead.
        ValueError: a variable of the environment is wrong.
    """
    options_of(_settings.cost(), None, _settings.effort(), loads=_settings.loads())
    _settings.limits()
    _settings.mini_batches_in_order()
    actor = setting(config, _ACTOR)
    if has_dynamic_groups(actors_engine(config)):
        _settings.refuse_loads("with dynamic_context_parallel, groups of ranks are planned by tokens")
        return
    if setting(actor, "use_prefix_grouper", False):
        # Of 0.9.1 and of main in August 2026 only _balance_batch reads it; forwards take each response whole.
        raise Unsupported(
            f"{_ACTOR}.use_prefix_grouper",
            True,
            "it keeps the responses to a prompt on one rank, but no engine of verl computes their prompt once, and so "
            "ranks would wait for nothing",
            "set it to False",
        )
    if not setting(actor, "use_dynamic_bsz", False):
        raise _fixed_counts(_ACTOR, "ppo_max_token_len_per_gpu")


def ppo(config: Any, sequences: int, dp: int, *, use_critic: bool, use_reference: bool) -> Wanted:
    """What a batch of so many sequences is planned for, on so many ranks.

    Raises:
        Unsupported: mini-batches are drawn at random on each rank, after the plan is made.
    """
    check_ppo(config)
    actor = setting(config, _ACTOR)
    of_prompt = int(setting(config, "actor_rollout_ref.rollout.n", 1))
    size = int(setting(actor, "ppo_mini_batch_size", 0)) * of_prompt
    # Sizes that do not divide each other are verl's to refuse.
    several = 0 < size < sequences and sequences % size == 0 and size % dp == 0
    share = _sequence_parallel(actor, "fsdp_config")
    passes = [
        _pass(config, f"{_ACTOR}.ppo_max_token_len_per_gpu", "train", share),
        _pass(config, "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu", "infer", share),
    ]
    if several:
        _refuse_shuffle(config, _ACTOR)
    if use_reference:
        reference = setting(config, "actor_rollout_ref.ref")
        key = "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu"
        passes.append(_pass(config, key, "infer", _sequence_parallel(reference, "fsdp_config")))
    if use_critic and setting(config, "critic.use_dynamic_bsz", False):
        critic = setting(config, "critic")
        critic_share = _sequence_parallel(critic, "fsdp")
        critic_size = int(setting(critic, "ppo_mini_batch_size", 0)) * of_prompt
        if 0 < critic_size < sequences:
            _refuse_shuffle(config, "critic")
        # Its mini-batches are then one of the actor's, or several.
        if not several or critic_size % size == 0:
            passes.append(_pass(config, "critic.ppo_max_token_len_per_gpu", "train", critic_share))
        for name in ("ppo_infer_max_token_len_per_gpu", "forward_max_token_len_per_gpu"):
            passes.append(_pass(config, f"critic.{name}", "infer", critic_share))
    found = [one for one in passes if one is not None]
    if not found or found[0].use != "train":
        raise Unsupported(
            f"{_ACTOR}.ppo_max_token_len_per_gpu", None, "it is the budget of micro-batches", "set it"
        )
    megatron = setting(actor, "megatron") if setting(actor, "strategy") == "megatron" else None
    return Wanted(
        tuple(found),
        size if several else 0,
        _stages(megatron),
        _synchronization(megatron),
    )


def train_batch(engine: Any, use_dynamic_bsz: Any, budget: Any) -> Wanted:
    """What a batch of the SFT trainer is planned for: one mini-batch.

    Args:
        engine: the workers' configuration of their engine.
        use_dynamic_bsz: as the batch has it, or None.
        budget: its max_token_len_per_gpu, or None.
    """
    if not setting(engine, "use_dynamic_bsz", False) if use_dynamic_bsz is None else not use_dynamic_bsz:
        raise _fixed_counts("data", "max_token_len_per_gpu")
    budget = setting(engine, "max_token_len_per_gpu") if budget is None else budget
    if budget is None:
        raise Unsupported("data.max_token_len_per_gpu", None, "it is the budget of micro-batches", "set it")
    strategy = str(setting(engine, "strategy", "fsdp"))
    share = int(setting(engine, _SEQUENCE_PARALLEL.get(strategy, ""), 1))
    megatron = engine if strategy == "megatron" else None
    return Wanted(
        (Pass("train", int(budget) * share, "data.max_token_len_per_gpu"),),
        0,
        _stages(megatron),
        _synchronization(megatron),
    )


def _fixed_counts(section: str, budget: str) -> Unsupported:
    return Unsupported(
        f"{section}.use_dynamic_bsz",
        False,
        "micro-batches then have as many sequences each, whatever their length",
        f"set it to True, and {section}.{budget} to the tokens that a GPU holds",
    )


def _pass(config: Any, key: str, use: Any, share: int) -> Pass | None:
    budget = setting(config, key)
    return None if budget is None else Pass(use, int(budget) * share, key)


def _refuse_shuffle(config: Any, section: str) -> None:
    if setting(config, f"{section}.shuffle", False):
        raise Unsupported(
            f"{section}.shuffle",
            True,
            "each rank then draws its mini-batches at random, after the batch was planned",
            "set it to False",
        )


def _sequence_parallel(section: Any, fsdp: str) -> int:
    """The size that workers multiply a section's budgets by."""
    strategy = str(setting(section, "strategy", "fsdp"))
    name = _SEQUENCE_PARALLEL.get(strategy)
    if name is None:
        return 1
    own = int(setting(section, f"{fsdp if strategy.startswith('fsdp') else strategy}.{name}", 1))
    # Of the actor and the reference it may also stand in the section itself.
    above = int(setting(section, name, 1)) if strategy.startswith("fsdp") and fsdp == "fsdp_config" else 1
    return above if above > 1 else own


def _stages(megatron: Any) -> Stages:
    """Of Megatron's engine, with the size of groups as Megatron-Core defaults it."""
    group = setting(megatron, "override_transformer_config.microbatch_group_size_per_vp_stage")
    return Stages(
        int(setting(megatron, "pipeline_model_parallel_size", 1)),
        int(setting(megatron, "virtual_pipeline_model_parallel_size", 1)),
        None if group is None else int(group),
        int(setting(megatron, "expert_model_parallel_size", 1)),
    )


def _synchronization(megatron: Any) -> str:
    """Ranks of Megatron meet once a mini-batch, unless experts are spread over them."""
    if megatron is None or int(setting(megatron, "expert_model_parallel_size", 1)) > 1:
        return "lockstep"
    return "accumulated"
