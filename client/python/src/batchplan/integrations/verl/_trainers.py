"""What stands in place of methods of verl's trainers, on the driver."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from batchplan.integrations.verl import _config, _settings
from batchplan.integrations.verl._field import Int64s, mask_lengths, sequence_lengths, sequence_patches
from batchplan.integrations.verl._joint import Dispatch, Wanted, by_mini_batch, plan_dispatch

_log = logging.getLogger("batchplan")
Method = Callable[..., Any]
# Of a sequence in a TransferQueue.
PATCHES_TAG = "batchplan_patches"


def checked(method: Method, check: Callable[[Any], None]) -> Method:
    """A trainer's __init__ that refuses what no plan can be kept with."""

    @functools.wraps(method)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        method(self, *args, **kwargs)
        check(self.config)

    return __init__


def check_ray_ppo(config: Any) -> None:
    """_config.check_ppo, of the trainer that balances batches only where it is asked to."""
    _config.check_ppo(config)
    if not _config.setting(config, "trainer.balance_batch", True):
        _log.warning(
            "batchplan: trainer.balance_batch is False, so sequences stay on the ranks where they come to "
            "be, and only their micro-batches are planned; set it to True to plan both"
        )


def balance_data_proto(method: Method) -> Method:
    """RayPPOTrainer._balance_batch, of a DataProto."""

    @functools.wraps(method)
    def _balance_batch(
        self: Any,
        batch: Any,
        metrics: Any,
        logging_prefix: str = "global_seqlen",
        keep_minibatch: bool = False,
    ) -> None:
        import torch
        from verl import DataProto

        if _config.has_dynamic_groups(_config.actors_engine(self.config)):
            method(self, batch, metrics, logging_prefix, keep_minibatch)
            return
        mask = batch.batch["attention_mask"]
        lengths = mask_lengths(mask)
        dp = self._get_dp_size(self.actor_rollout_wg, "actor")
        wanted = _wanted(self, len(lengths), dp)
        order = numpy.arange(len(lengths))
        if wanted.mini_batch_size and (keep_minibatch or not _settings.mini_batches_in_order()):
            # What verl would make of this batch, tried on one that has nothing else.
            tried = DataProto.from_dict({"attention_mask": mask, "position": torch.from_numpy(order)})
            method(self, tried, {}, logging_prefix, keep_minibatch)
            order = by_mini_batch(tried.batch["position"].numpy(), dp, wanted.mini_batch_size)
        patches = _patches(batch.non_tensor_batch, len(lengths))
        dispatch = plan_dispatch(lengths, order, dp, wanted, patches)
        batch.reorder(torch.from_numpy(dispatch.order))
        for name, field in dispatch.fields.items():
            batch.batch[name] = torch.from_numpy(field)
        metrics.update(_statistics(lengths, dispatch, dp, logging_prefix))

    return _balance_batch


def balance_key_values(method: Method, put: Callable[..., Any]) -> Method:
    """PPOTrainer._balance_batch of the trainers over a TransferQueue, of a KVBatchMeta.

    Args:
        put: kv_batch_put of the queue, for the fields.
    """

    @functools.wraps(method)
    def _balance_batch(
        self: Any,
        batch: Any,
        metrics: Any,
        logging_prefix: str = "global_seqlen",
        keep_minibatch: bool = False,
    ) -> Any:
        import torch
        from tensordict import TensorDict

        before = {key: place for place, key in enumerate(batch.keys)}
        # verl's own, which also fills the batch up to whole mini-batches.
        batch = method(self, batch, metrics, logging_prefix, keep_minibatch)
        if _config.has_dynamic_groups(_config.actors_engine(self.config)):
            return batch
        patches: Int64s | None = None
        if _settings.loads():
            patches = tagged_patches(batch.tags)
            if patches is None:
                _log.warning(
                    "batchplan: a sequence has no %s tag, as verl's agent loops give it with batchplan, so sequences "
                    "stay on verl's ranks, and only their micro-batches are planned",
                    PATCHES_TAG,
                )
                return batch
        lengths = numpy.asarray([tag["seq_len"] for tag in batch.tags], numpy.int64)
        dp = max(self.actor_rollout_wg._dispatch_info["actor"]) + 1
        wanted = _wanted(self, len(lengths), dp)
        order = numpy.arange(len(lengths))
        if wanted.mini_batch_size and not keep_minibatch and _settings.mini_batches_in_order():
            order = numpy.argsort([before.get(key, len(lengths)) for key in batch.keys], kind="stable")
        elif wanted.mini_batch_size:
            order = by_mini_batch(order, dp, wanted.mini_batch_size)
        dispatch = plan_dispatch(lengths, order, dp, wanted, patches)
        batch.reorder(dispatch.order.tolist())
        fields = {name: torch.from_numpy(field) for name, field in dispatch.fields.items()}
        put(
            keys=batch.keys,
            partition_id=batch.partition_id,
            fields=TensorDict(fields, batch_size=len(lengths)),
        )
        if batch.fields is not None:
            batch.fields = list(dict.fromkeys([*batch.fields, *fields]))
        metrics.update(_statistics(lengths, dispatch, dp, logging_prefix))
        return batch

    return _balance_batch


def dispatch_planned(dispatch: Method) -> Method:
    """What sends a batch of the SFT trainer to the workers' train_batch, in the order of its plan, with its field.

    All its sequences make one step of the optimizer, so their order is free.

    Args:
        dispatch: verl's, a partial of the name of the workers' mesh.
    """

    @functools.wraps(dispatch)
    def planned(group: Any, *args: Any, **kwargs: Any) -> Any:
        mesh = dispatch.args[0]  # type: ignore[attr-defined]
        if mesh not in group._dispatch_info:
            group._dispatch_info[mesh] = group._query_dispatch_info(mesh)
        dp = max(group._dispatch_info[mesh]) + 1
        engine = _config.setting(group, "ray_cls_with_init.kwargs.config.engine_config")
        args = tuple(_planned_batch(one, dp, engine) for one in args)
        kwargs = {name: _planned_batch(one, dp, engine) for name, one in kwargs.items()}
        return dispatch(group, *args, **kwargs)

    return planned


def _planned_batch(data: Any, dp: int, engine: Any) -> Any:
    import torch
    from tensordict import TensorDict
    from verl.utils import tensordict_utils

    if not isinstance(data, TensorDict) or "input_ids" not in data.keys() or len(data) % dp:
        return data  # not sequences, or what verl itself refuses
    if _config.has_dynamic_groups(engine):
        return data
    lengths = sequence_lengths(data)
    wanted = _config.train_batch(
        engine,
        tensordict_utils.get(data, "use_dynamic_bsz"),
        tensordict_utils.get(data, "max_token_len_per_gpu"),
    )
    patches = _patches(data, len(lengths))
    dispatch = plan_dispatch(lengths, numpy.arange(len(lengths)), dp, wanted, patches)
    data = tensordict_utils.index_select_tensor_dict(data, torch.from_numpy(dispatch.order))
    for name, field in dispatch.fields.items():
        data[name] = torch.from_numpy(field)
    return data


class TaggingQueue:
    """A TransferQueue in which agent loops put sequences with the number of their patches among the tags, as the
    trainer has the tags alone."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    async def async_kv_batch_put(
        self, keys: Any, partition_id: Any, fields: Any = None, tags: Any = None, **given: Any
    ) -> Any:
        if _settings.loads() and tags is not None and fields is not None:
            patches = sequence_patches(fields, len(tags))
            tags = [{**tag, PATCHES_TAG: int(own)} for tag, own in zip(tags, patches, strict=True)]
        return await self._queue.async_kv_batch_put(keys, partition_id, fields, tags, **given)


def tagged_patches(tags: Sequence[Mapping[str, Any]]) -> Int64s | None:
    """Of each sequence by its tag; None where one has no such tag."""
    # What fills a batch up has the tag of the sequence that it was made of, but no images.
    found = [0 if tag.get("is_padding") else tag.get(PATCHES_TAG) for tag in tags]
    return None if None in found else numpy.asarray(found, numpy.int64)


def _patches(fields: Any, count: int) -> Int64s | None:
    return sequence_patches(fields, count) if _settings.loads() else None


def _wanted(trainer: Any, sequences: int, dp: int) -> Wanted:
    return _config.ppo(
        trainer.config,
        sequences,
        dp,
        use_critic=bool(getattr(trainer, "use_critic", False)),
        use_reference=bool(getattr(trainer, "use_reference_policy", False)),
    )


def _statistics(lengths: Int64s, dispatch: Dispatch, dp: int, prefix: str) -> dict[str, Any]:
    from verl.utils.seqlen_balancing import log_seqlen_unbalance

    own: dict[str, Any] = log_seqlen_unbalance(lengths.tolist(), dispatch.ranks(dp), prefix)
    return own | dispatch.metrics
