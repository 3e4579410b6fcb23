"""batchplan in the place of ROLL's own planners."""

from __future__ import annotations

import functools
import importlib
import warnings
from typing import Any

import batchplan
from batchplan.integrations._replace import replace, wrap
from batchplan.integrations.roll._balance import batch_balance
from batchplan.integrations.roll._dynamic_batching import dynamic_batching_shard
from batchplan.integrations.roll._packing import Packing, make_micro_batch_iter_for_sequence_packing
from batchplan.integrations.roll._travel import mini_batches_that_came_along


def install(
    *,
    cost: batchplan.CostModel | None = None,
    synchronization: str | None = None,
    effort: str | None = None,
    seed: int = 0,
) -> None:
    """Puts batchplan in the place of ROLL's planners, in this process and in those of the clusters that it
    makes afterwards: to be called once, in the program that starts the pipeline, before it makes that.

    Clusters with use_sequence_packing and the algorithm "load_balance" have ranks, mini-batches and
    micro-batches planned at once. Planned mini-batches are random ones, as ROLL's; where ppo_epochs is
    above 1, they are the same ones in every epoch. All other clusters get ROLL's own plans of dynamic
    batching, and ranks balanced as ROLL does.

    Args:
        cost: what balance is measured by; that of a model of 7B parameters unless given.
        synchronization: "lockstep", the default, or "accumulated".
        effort: "fast", "default" or "thorough".
        seed: of random mini-batches.

    Raises:
        ImportError: there is no ROLL.
    """
    clusters: list[Any] = []

    @functools.wraps(batch_balance)
    def balance(batch: Any, dp_size: int, *args: Any, **kwargs: Any) -> dict[str, Any]:
        of_size = (cluster for cluster in clusters if cluster.dp_size == dp_size)
        return batch_balance(
            batch,
            dp_size,
            *args,
            packings=[one for cluster in of_size for one in packings_of(cluster)],
            cost=cost,
            synchronization=synchronization,
            effort=effort,
            seed=seed,
            **kwargs,
        )

    replace(importlib.import_module("roll.utils.functionals"), "batch_balance", balance)
    dynamic_batching = importlib.import_module("roll.utils.dynamic_batching")
    replace(dynamic_batching, "dynamic_batching_shard", dynamic_batching_shard)
    install_in_worker(cost=cost)

    kind = importlib.import_module("roll.distributed.executor.cluster").Cluster

    def making(make: Any) -> Any:
        @functools.wraps(make)
        def init(
            cluster: Any, name: str, worker_cls: Any, resource_manager: Any, worker_config: Any
        ) -> None:
            packs = (
                worker_config.use_sequence_packing
                and worker_config.sequence_packing_args.algorithm == "load_balance"
            )
            planned = worker_with_plans(worker_cls, cost) if packs else worker_cls
            make(cluster, name, planned, resource_manager, worker_config)
            if packs:
                clusters.append(cluster)

        return init

    wrap(kind, "__init__", making)


def install_in_worker(*, cost: batchplan.CostModel | None = None) -> None:
    """The part of `install` that a worker's process needs, where a cluster does not see to it: one whose
    worker_cls is already a Ray actor's.

    Raises:
        ImportError: there is no ROLL.
    """
    packer = importlib.import_module("roll.utils.sequence_packing").LoadBalancePacker

    def packing(own: Any) -> Any:
        @functools.wraps(own)
        def iterate(
            self: Any,
            mini_batch: Any,
            tp_size: int,
            cp_size: int,
            vp_size: int | None,
            is_train: bool = False,
            dp_group: Any = None,
            micro_batch_size: int | None = None,
        ) -> Any:
            return make_micro_batch_iter_for_sequence_packing(
                mini_batch,
                tp_size,
                cp_size,
                vp_size,
                is_train,
                dp_group,
                micro_batch_size,
                self.config,
                cost=cost,
            )

        return iterate

    def iterating(make_iterator: Any) -> Any:
        @functools.wraps(make_iterator)
        def iterate_mini_batches(
            self: Any, mini_batch_size: int, epochs: int, seed: Any = None, dataloader_kwargs: Any = None
        ) -> Any:
            planned = mini_batches_that_came_along(self, mini_batch_size)
            if planned is None:
                return make_iterator(self, mini_batch_size, epochs, seed, dataloader_kwargs)
            return (self.slice(one.start, one.stop) for _ in range(epochs) for one in planned)

        return iterate_mini_batches

    wrap(packer, "make_micro_batch_iter_for_sequence_packing", packing)
    proto = importlib.import_module("roll.distributed.scheduler.protocol").DataProto
    wrap(proto, "make_iterator", iterating)


def packings_of(cluster: Any) -> list[Packing]:
    """How a cluster's workers pack: for training, for forward passes, or both."""
    config = cluster.worker_config.sequence_packing_args
    return [
        Packing.of(config, is_train, cluster.tp_size, cluster.cp_size, cluster.vp_size)
        for is_train, capacity in (
            (True, config.max_packed_sequence_length_train),
            (False, config.max_packed_sequence_length_forward),
        )
        if capacity is not None
    ]


def worker_with_plans(worker_cls: Any, cost: batchplan.CostModel | None) -> Any:
    """A worker class, or its dotted name, as one that installs batchplan in its process."""
    found = worker_cls
    if isinstance(worker_cls, str):
        module, _, name = worker_cls.rpartition(".")
        found = getattr(importlib.import_module(module), name)
    if hasattr(found, "__ray_actor_class__"):
        warnings.warn(
            f"{worker_cls} is a Ray actor's class already: plans reach its workers only if it calls "
            "batchplan.integrations.roll.install_in_worker() itself",
            stacklevel=3,
        )
        return worker_cls

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        install_in_worker(cost=cost)
        found.__init__(self, *args, **kwargs)

    return type(found.__name__, (found,), {"__init__": init, "__doc__": found.__doc__})
