"""For Trainer of transformers, SFTTrainer of TRL, and what else builds on them: whole batches planned.

    + from batchplan.integrations.transformers import plan_batches
      trainer = SFTTrainer(model, args, train_dataset=dataset)
    + plan_batches(trainer, max_tokens=16384)
      trainer.train()

An optimizer step takes the sequences that it would take without: per_device_train_batch_size on every
rank, gradient_accumulation_steps times. The plan says which of them make up each micro-batch on each rank,
within the token budget, so that ranks have alike work. Where there are fewer sequences than micro-batches, the
shortest one stands in for those that are missing, with a loss of zero. Epochs, checkpoints and the learning rate's
schedule are the trainer's own. Each sequence comes once an epoch; of a mixture with proportions at most once, as the
epoch ends with the first source that runs out.

Rows that were packed beforehand, by SFTTrainer's packing=True or LLaMA-Factory's neat_packing, stay as they are, and
are dealt by what the sequences in them cost: plan_batches(trainer), without max_tokens.

TRL's GRPOTrainer and RLOOTrainer generate what they train on, and are planned by the same line:

      trainer = GRPOTrainer(model, reward_funcs, args, dataset)
    + plan_batches(trainer, max_tokens=16384)
"""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from batchplan._columns import listed
from batchplan._option_help import takes_options
from batchplan._options import Pass, PlanOptions, load_costs
from batchplan._request import check_options, columns_listed
from batchplan.integrations._loss_weights import check_weights, weigh_losses

if TYPE_CHECKING:
    from batchplan._choices import Synchronization
    from batchplan.torch import Mixture
    from batchplan.torch._row_costs import PackedRows
    from typing_extensions import Unpack

_TRAINERS_OWN = (
    "dp", "shuffle", "mini_batch_size", "mini_batch_groups", "last_mini_batch", "allow_empty_microbatches",
)  # fmt: skip
# Those that BatchSampler refuses, and that of prefixes.
_NOT_OF_SAMPLERS = (
    "prompt_lengths", "shared_prefixes", "shared_with", "ranks", "selection", "ages", "dynamic_cp",
)  # fmt: skip
_HOOKS = ("_get_train_sampler", "get_train_dataloader")


@takes_options(without=(*_TRAINERS_OWN, *_NOT_OF_SAMPLERS))
def plan_batches(
    trainer: Any,
    *,
    lengths: ArrayLike | Iterable[float] | None = None,
    padded: bool | None = None,
    equal_counts: bool = False,
    mixture: Mixture | None = None,
    largest_first: bool = False,
    **options: Unpack[PlanOptions],
) -> None:
    """Plans the training batches of a trainer, from its next train() on.

    TRL's GRPOTrainer and RLOOTrainer generate what they train on. Of these, each generation batch is planned
    for all ranks: each of TRL's micro-batches becomes one planned micro-batch, or several if max_tokens asks for
    them, and a sequence of more than max_tokens has one for itself. Log-probabilities without gradients are
    planned too. Such trainers take max_tokens or `passes`, of which a second one is that of the log-probabilities,
    `padded`, `cost`, `effort` and `synchronization`. The default of the latter is "lockstep", since TRL gathers
    metrics at every micro-batch; that of `cost` has 1,024 tokens for a micro-batch besides its sequences.

    Args:
        trainer: a transformers.Trainer; or the class, for programs that make their trainers themselves,
            such as LLaMA-Factory: then all trainers that leave their batches to it; those that don't say so when
            they begin to train.
        lengths: tokens of each sequence of the training dataset; unset: those of its column
            args.length_column_name, or of its input_ids. Of rows that were packed beforehand, a list for each
            row, the lengths of its sequences; unset: those of a column seq_lengths, or of position_ids, if
            these say that rows have several sequences.
        padded: whether the collator pads sequences to the longest; unset: it does, unless it is
            DataCollatorWithFlattening or one with padding_free set. What sequences cost, and how many fit
            into a micro-batch, depends on it. Not with `passes`, whose scan says so. In a trainer that
            generates there is no collator: unset, rows are packed if the model's attention is flash or flex
            attention, and else padded to the longest of a micro-batch.
        equal_counts: every micro-batch has per_device_train_batch_size sequences, as without a plan: for losses
            that are means of a micro-batch, over its sequences, such as those of DPOTrainer, RewardTrainer and
            classifiers. The step's is then the mean of these, also where transformers would add them up, as
            it does with those of classifiers. Global batches must all be full, by dataloader_drop_last or
            by the dataset's length.
        mixture: the sources of the training dataset's sequences, of which every global batch has its share, as
            BatchSampler has it. Not with `groups` of several sizes, and not in a trainer that generates.
        largest_first: the first epoch begins with the global batch of the largest micro-batch, so that too little
            memory shows at once. That epoch is planned before training for it. Not in a trainer that generates.
        options: those of batchplan.plan. max_tokens, of a micro-batch on one rank, is such that
            gradient_accumulation_steps of them have room for a rank's part of every global batch; `passes`
            in its place says more of micro-batches, and only the first one counts. `loads`, `items` and `kinds` have
            one entry for each sequence of the training dataset; of padded ones, loads can be limited, and cost
            nothing. Of packed rows, a micro-batch
            has at most per_device_train_batch_size, or, where one of these two is given, as many as BatchSampler
            says. `seed` is args.data_seed or args.seed unless given. `synchronization` is "accumulated" under
            DDP, which meets once a step, and "lockstep" elsewhere, unless given.

    Raises:
        ValueError: what the trainer does can't be kept, by name: here, or of a class when one of its
            trainers begins to train. There also where a global batch needs more than
            gradient_accumulation_steps micro-batches, in any epoch that is to be trained, of the first
            5,000,000 sequences; and where the loss is not divided by num_items_in_batch, which is
            known here of most, and of a compute_loss of your own by the first micro-batch.
    """
    import transformers

    from batchplan.integrations._grpo import generates, plan_generation

    for name in _TRAINERS_OWN:
        if options.get(name) is not None:
            raise ValueError(f"{name} is given; it is the trainer's to say: leave it out")
    if options.get("prompt_lengths") is not None:
        raise ValueError("prompt_lengths is given; a trainer lays every sequence whole: leave it out")
    if padded is not None and options.get("passes") is not None:
        raise ValueError(f"padded is {padded}, and passes is given, whose scan says so: leave it out")
    if lengths is not None:
        lengths = listed("manifest.lengths", lengths)
    # Every train() reads them.
    options = columns_listed(options)
    # What is wrong with them is wrong for any lengths. Packed rows need no budget.
    check_options(options if _has_budget(options) else {**options, "max_tokens": 1})
    for place, one in enumerate(load_costs(options.get("cost"))):
        if one.dealt:
            raise ValueError(
                f'cost.loads[{place}], of "{one.load}", is dealt; a trainer computes on each rank what its own '
                "sequences bring: set separate in its place"
            )
    is_class = isinstance(trainer, type)
    owner = trainer if is_class else type(trainer)
    if generates(owner):
        given = {
            "lengths": lengths is not None, "equal_counts": equal_counts, "mixture": mixture is not None,
            "largest_first": largest_first,
        }  # fmt: skip
        for name in (name for name, is_given in given.items() if is_given):
            raise ValueError(f"{name} is given; {owner.__name__} generates what it trains on: leave it out")
        check_options(options)
        plan_generation(trainer, padded, options)
        return
    if not issubclass(owner, transformers.Trainer):
        raise ValueError(
            f"trainer is a {owner.__name__}; must be a transformers.Trainer, or its class"
        )
    for name in _HOOKS:
        of = next(base for base in owner.__mro__ if name in vars(base))
        if of is not transformers.Trainer and not hasattr(vars(of)[name], "planned_over"):
            code = getattr(vars(of)[name], "__code__", None)
            way_out = "such trainers can't be planned"
            if of.__name__ == "AsyncGRPOTrainer":
                way_out = "batchplan.integrations.trl_async_grpo.plan_batches plans them"
            elif code and name in code.co_names:
                way_out = "plan_batches(transformers.Trainer, ...) plans what it takes from super()"
            raise ValueError(
                f"{of.__name__}.{name} draws batches of its own, which a plan would replace: {way_out}"
            )
    # Not that of a plan before this one.
    original = getattr(owner.get_train_dataloader, "planned_over", owner.get_train_dataloader)
    if not is_class:
        _check(trainer, _counts_are_equal(trainer, equal_counts, options))
        if not _has_budget(options) and not _are_packed(trainer.train_dataset, lengths):
            raise _needs_budget(lengths)

    def get_train_sampler(self: Any, train_dataset: Any = None) -> Any:
        dataset = self.train_dataset if train_dataset is None else train_dataset
        return _planned_sampler(self, dataset, lengths, padded, equal_counts, mixture, largest_first, options)

    def get_train_dataloader(self: Any) -> Any:
        equal = _counts_are_equal(self, equal_counts, options)
        _check(self, equal)
        from batchplan.integrations._planned_sampler import fill_empty, of_batches

        loader = of_batches(self, original(self))
        fill_empty(loader, _tell_epochs(loader))
        if _adds_up_losses(self):
            weigh_losses(self, equal)
        self._batchplan_planned = True
        return loader

    for name, hook in zip(_HOOKS, (get_train_sampler, get_train_dataloader)):
        hook.planned_over = original  # type: ignore[attr-defined]
        setattr(trainer, name, hook if is_class else types.MethodType(hook, trainer))
    if is_class:
        _tell_unplanned(trainer)


def _tell_unplanned(owner: Any) -> None:
    """Has trainers of a class that is planned raise ValueError where they train on batches that are not."""
    import transformers

    from batchplan.integrations._grpo import generates

    stock = getattr(owner.train, "tells_over", owner.train)

    def callback(trainer: Any) -> Any:
        def on_train_begin(*_: Any, **__: Any) -> None:
            if hasattr(owner.get_train_dataloader, "planned_over") and not trainer._batchplan_planned:
                kind = type(trainer).__name__
                way_out = "such trainers can't be planned; leave that out"
                if generates(type(trainer)):
                    way_out = f"plan them by plan_batches({kind}, ...), or leave that out"
                raise ValueError(
                    f"the training batches of {kind} are its own, and not planned, though "
                    f"plan_batches({owner.__name__}, ...) was called: {way_out}"
                )

        return type("Told", (transformers.TrainerCallback,), {"on_train_begin": on_train_begin})()

    @functools.wraps(stock)
    def train(self: Any, *args: Any, **kwargs: Any) -> Any:
        # Those that generate are planned before.
        self._batchplan_planned = hasattr(self, "_batchplan_generation")
        told = callback(self)
        self.add_callback(told)
        try:
            return stock(self, *args, **kwargs)
        finally:
            self.remove_callback(told)

    train.tells_over = stock  # type: ignore[attr-defined]
    owner.train = train


def _planned_sampler(
    trainer: Any,
    dataset: Any,
    lengths: ArrayLike | Iterable[float] | None,
    padded: bool | None,
    equal_counts: bool,
    mixture: Mixture | None,
    largest_first: bool,
    given: PlanOptions,
) -> Any:
    from batchplan.integrations._packed_rows import rows_of
    from batchplan.integrations._planned_sampler import PlannedSampler, in_trainers_words
    from batchplan.torch._global_batches import GlobalBatches
    from batchplan.torch._row_costs import packed_rows

    are_equal = _counts_are_equal(trainer, equal_counts, given)
    _check(trainer, are_equal)
    args = trainer.args
    rows = rows_of(trainer.train_dataset) if lengths is None else packed_rows(lengths)
    planned: Any = rows or (_lengths_of(trainer, dataset) if lengths is None else lengths)
    count = len(planned)
    if count != len(dataset):
        raise ValueError(f"lengths has {count} entries; the training dataset has {len(dataset)}")
    options = given.copy()
    options["dp"] = args.world_size
    options["shuffle"] = args.train_sampling_strategy != "sequential"
    if options.get("seed") is None:
        options["seed"] = args.seed if args.data_seed is None else args.data_seed
    if options.get("synchronization") is None:
        options["synchronization"] = _synchronization(trainer)
    global_batch = trainer.get_total_train_batch_size(args)
    if rows is None:
        if not _has_budget(given):
            raise _needs_budget(lengths)
        _lay_out(options, trainer.data_collator, padded)
    else:
        _check_rows(trainer, dataset, rows, padded)
        options = rows.of_trainer(
            options, args.per_device_train_batch_size, global_batch, drop_last=args.dataloader_drop_last
        )
    if equal_counts:
        if count % global_batch and not args.dataloader_drop_last:
            raise ValueError(
                f"equal_counts is True, and the training dataset has {count} entries, no multiple of the "
                f"{global_batch} of a global batch: set dataloader_drop_last=True"
            )
        first, *others = options.get("passes") or [
            Pass(options.pop("max_tokens"), limits=options.pop("limits", None))
        ]
        each = dataclasses.replace(first, max_sequences=args.per_device_train_batch_size)
        options["passes"] = [each, *others]
    with in_trainers_words():
        batches = GlobalBatches(
            planned,
            global_batch,
            rank=args.process_index,
            drop_last=args.dataloader_drop_last,
            microbatches_per_step=args.gradient_accumulation_steps,
            mixture=mixture,
            largest_first=largest_first,
            allow_empty_where_needed=not are_equal,
            **options,
        )
    return PlannedSampler(batches)


def _tell_epochs(loader: Any) -> Any:
    """Accelerate wraps the sampler for each process, and for a training that goes on amid an epoch once
    more; Trainer tells the epoch to what is in the outer wrapper. Unless that passes it on, such a training
    goes on with the first epoch's batches, as it does with transformers' own sampler of 5.23. Returns the sampler."""
    from batchplan.integrations._planned_sampler import PlannedSampler

    shard = loader.batch_sampler
    if isinstance(shard, PlannedSampler):
        return shard
    sampler = getattr(shard, "batch_sampler", None)
    if not isinstance(sampler, PlannedSampler):
        raise ValueError(
            f"the training batches come from a {type(sampler or shard).__name__} of the trainer's own, and "
            "are not planned: leave out what makes it choose that, or plan_batches"
        )
    if shard.num_processes != 1:
        raise RuntimeError(
            f"a {type(shard).__name__} would divide the planned batches among processes once more, which "
            "transformers 5.23 keeps it from"
        )
    shard.set_epoch = sampler.set_epoch
    return sampler


def _adds_up_losses(trainer: Any) -> bool:
    return bool(trainer.args.world_size * trainer.args.gradient_accumulation_steps > 1)


def _counts_are_equal(trainer: Any, equal_counts: bool, options: PlanOptions) -> bool:
    """Whether every micro-batch has per_device_train_batch_size sequences: if none may have more, as none of packed
    rows that have no budget, and global batches are full."""
    args, dataset = trainer.args, trainer.train_dataset
    if equal_counts or not hasattr(dataset, "__len__"):
        return equal_counts
    first = next(iter(options.get("passes") or ()), None)
    full = bool(args.dataloader_drop_last or len(dataset) % trainer.get_total_train_batch_size(args) == 0)
    if first is None:
        return full and options.get("max_tokens") is None
    return first.max_sequences == args.per_device_train_batch_size and full


def _check(trainer: Any, equal_counts: bool) -> None:
    """Raises ValueError where planned batches would not be what the trainer is asked for."""
    args, dataset = trainer.args, trainer.train_dataset
    if dataset is not None and not hasattr(dataset, "__len__"):
        raise ValueError(
            f"train_dataset is a {type(dataset).__name__}, a stream: only a dataset with a length can be "
            "planned"
        )
    if args.train_sampling_strategy == "group_by_length":
        raise ValueError(
            'train_sampling_strategy is "group_by_length", which a plan does not keep to; must be "random" '
            'or "sequential"'
        )
    if args.auto_find_batch_size:
        raise ValueError(
            "auto_find_batch_size is True; a plan keeps to max_tokens: choose those by the memory there is"
        )
    check_ranks(trainer)
    for name in ("split_batches", "dispatch_batches"):
        if getattr(args.accelerator_config, name):
            raise ValueError(
                f"accelerator_config.{name} is True, which divides batches that are each rank's own already"
            )
    if not args.average_tokens_across_devices and args.world_size > 1:
        raise ValueError(
            "average_tokens_across_devices is False; must be True: ranks have different numbers of tokens, "
            "whose means would count alike"
        )
    if _adds_up_losses(trainer) and not equal_counts:
        check_weights(trainer)
    if _flattens(trainer.data_collator):
        _check_boundaries(trainer)
    if getattr(trainer.data_collator, "padding", None) == "max_length":
        raise ValueError('padding of the collator is "max_length"; must be True: else all cost the same')


def check_ranks(trainer: Any) -> None:
    """Raises ValueError where a rank is none of data-parallel processes alone."""
    if trainer.args.n_gpu > 1:
        raise ValueError(f"n_gpu is {trainer.args.n_gpu}; must be 1: a process for each device, by torchrun")
    for name in ("tp", "cp", "sp"):
        size = getattr(trainer, f"get_{name}_size")()
        if size > 1:
            raise ValueError(
                f"{name}_size is {size}; must be 1: ranks that share a batch are not planned for here"
            )


def _synchronization(trainer: Any) -> Synchronization:
    """DDP adds up a step's gradients on each rank, whose parts meet at its end."""
    kind = str(trainer.accelerator.distributed_type.value)
    return "accumulated" if kind in ("NO", "MULTI_GPU", "MULTI_CPU") else "lockstep"


def _lay_out(options: PlanOptions, collator: Any, padded: bool | None) -> None:
    """As the collator does: one row of the sequences, or padded ones, with a length that it rounds up."""
    passes = options.get("passes")
    if passes is not None:
        return
    multiple = getattr(collator, "pad_to_multiple_of", None) or 1
    budget, limits = options.pop("max_tokens"), options.pop("limits", None)
    if padded is None:
        padded = not _flattens(collator)
    if padded:
        options["passes"] = [Pass(budget, length_multiple=multiple, scan="optimal", limits=limits)]
    else:
        # The row's end is padded, and rows are no longer for others, whatever the preset has.
        options["passes"] = [Pass(budget // multiple * multiple, rows="none", limits=limits)]


def _has_budget(options: PlanOptions) -> bool:
    return any(options.get(name) is not None for name in ("max_tokens", "passes"))


def _are_packed(dataset: Any, lengths: Any) -> bool:
    """Whether the rows can be dealt without a budget."""
    from batchplan.integrations._packed_rows import are_packed
    from batchplan.torch._row_costs import packed_rows

    if lengths is not None:
        return packed_rows(lengths) is not None
    # Of none, Trainer tells.
    return dataset is None or are_packed(dataset)


def _needs_budget(lengths: Any) -> ValueError:
    why = "no seq_lengths, no position_ids that begin anew"
    if lengths is not None:
        why = "lengths has a number for each of them, and not a list"
    return ValueError(f"the training dataset's rows are not packed ({why}): give max_tokens")


def _check_rows(trainer: Any, dataset: Any, rows: PackedRows, padded: bool | None) -> None:
    """Raises ValueError where sequences of a packed row would see each other, which is tried with one row."""
    from batchplan.integrations._packed_rows import keeps_apart

    if padded is not None:
        raise ValueError(f"padded is {padded}, and rows are packed beforehand: leave it out")
    collator = trainer.data_collator
    kind = type(collator).__name__
    if hasattr(dataset, "with_format"):
        dataset = trainer._remove_unused_columns(dataset)
    else:
        collator = trainer._get_collator_with_removed_columns(collator)
    row = int(rows.counts.argmax())
    batch = collator([dict(dataset[row])])
    if rows.counts[row] > 1 and not keeps_apart(batch, rows.lengths_of(row)):
        raise ValueError(
            f"rows of the training dataset have several sequences each, which see each other in batches of {kind}: "
            "their position_ids don't begin anew with each sequence, or an attention_mask hides it. Set "
            "packing=True or padding_free=True, max_length=None in TRL, neat_packing in LLaMA-Factory"
        )
    if batch.get("attention_mask") is None and "seq_idx" not in batch and not _flattens(trainer.data_collator):
        _check_boundaries(trainer)


def _flattens(collator: Any) -> bool:
    from transformers import DataCollatorWithFlattening

    return isinstance(collator, DataCollatorWithFlattening) or bool(
        getattr(collator, "padding_free", False)
    )


def _check_boundaries(trainer: Any) -> None:
    """Raises ValueError where sequences of the collator's rows would see each other in the model. Models whose
    parameters are divided among ranks, or that don't run where they are yet, are not tried."""
    from batchplan.torch._boundaries import needs_seq_idx

    model, collator = trainer.model, trainer.data_collator
    is_tried = hasattr(model, "get_input_embeddings") and hasattr(model, "config")
    if not is_tried or trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
        return
    try:
        needed = needs_seq_idx(model, next(model.parameters()).device)
    except ValueError as error:
        raise ValueError(f"{type(collator).__name__} flattens batches, but {error}") from error
    except Exception:
        return
    if needed and not getattr(collator, "return_seq_idx", False):
        raise ValueError(
            f"{type(model).__name__} keeps sequences of a row apart by seq_idx, which the collator does not "
            "give: use DataCollatorWithFlattening(return_seq_idx=True), or one that pads"
        )


def _lengths_of(trainer: Any, dataset: Any) -> ArrayLike:
    # Before the columns that the model does not take were removed.
    whole = trainer.train_dataset
    names = getattr(whole, "column_names", None) or ()
    column = trainer.args.length_column_name
    if column in names and len(whole) == len(dataset):
        return list(whole[column])
    names = getattr(dataset, "column_names", None)
    processing = getattr(trainer, "processing_class", None)
    inputs = (getattr(processing, "model_input_names", None) or ["input_ids"])[0]
    if names is not None and inputs not in names:
        raise ValueError(
            f"train_dataset has {', '.join(names)}, and neither {inputs} nor {column}: give lengths"
        )
    if hasattr(dataset, "with_format") and names is not None:
        return _list_lengths(dataset.select_columns([inputs]).with_format("arrow"))
    try:
        return [len(item[inputs]) for item in dataset]
    except (KeyError, TypeError, IndexError):
        raise ValueError(f"train_dataset's items have no {inputs}: give lengths") from None


def _list_lengths(dataset: Any) -> list[int]:
    """Of a column of lists, without making Python's lists of them."""
    import pyarrow.compute

    return [
        length
        for table in dataset.iter(batch_size=10_000)
        for length in pyarrow.compute.list_value_length(table.column(0)).to_pylist()
    ]
