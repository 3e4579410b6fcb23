"""Where verl's modules are changed: each when it is imported, or now where it was before."""

from __future__ import annotations

import functools
import importlib.machinery
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from batchplan.integrations.verl import _config, _dynamic_groups, _settings, _trainers
from batchplan.integrations.verl._micro_batches import rearrange_micro_batches

_MARK = "_batchplan"


def install() -> None:
    """Changes verl in this process: what is in BATCHPLAN=1 for every one. Again, it changes nothing more.

    Raises:
        ImportError: this verl has not what is changed; now, or when the module is imported.
    """
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    for name, change in _CHANGES.items():
        if name in sys.modules:
            change(sys.modules[name])


class _Finder:
    """Finds the modules that are to be changed as others do, and changes them when they have run."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        change = _CHANGES.get(name)
        if change is None:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                break
        else:
            return None
        loader: Any = spec.loader
        run = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            change(module)

        loader.exec_module = exec_module
        return spec


def _micro_batches(module: ModuleType) -> None:
    _replace(module, "rearrange_micro_batches", lambda _: rearrange_micro_batches)


def _groups(module: ModuleType) -> None:
    _replace(module, "get_megatron_dynamic_cp_scheduler_cls", _dynamic_groups.in_place_of)


def _ray_trainer(module: ModuleType) -> None:
    trainer = _found(module, "RayPPOTrainer")
    _replace(trainer, "__init__", lambda method: _trainers.checked(method, _trainers.check_ray_ppo))
    _replace(trainer, "_balance_batch", _trainers.balance_data_proto)


def _queue_trainer(module: ModuleType) -> None:
    trainer = _found(module, "PPOTrainer")
    put = functools.partial(_put, module)
    _replace(trainer, "__init__", lambda method: _trainers.checked(method, _config.check_ppo))
    _replace(trainer, "_balance_batch", lambda method: _trainers.balance_key_values(method, put))


def _put(module: Any, **what: Any) -> None:
    module.tq.kv_batch_put(**what)


def _agent_loops(module: ModuleType) -> None:
    _replace(module, "tq", _trainers.TaggingQueue)


def _workers(module: ModuleType) -> None:
    """Of the SFT trainer. It runs as a program, which no import precedes; so what it sends is changed."""
    from verl.single_controller.base.decorator import MAGIC_ATTR

    train_batch = _found(_found(module, "TrainingWorker"), "train_batch")
    mode = _found(train_batch, MAGIC_ATTR)["dispatch_mode"]
    if not getattr(mode["dispatch_fn"], _MARK, False):
        mode["dispatch_fn"] = _marked(_trainers.dispatch_planned(mode["dispatch_fn"]))


def _environment(module: ModuleType) -> None:
    """Ray's processes get the variables too, also on a cluster that was started without them."""

    def with_ours(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def get_ppo_ray_runtime_env(*args: Any, **kwargs: Any) -> Any:
            made = method(*args, **kwargs)
            ours = {name: os.environ[name] for name in _settings.VARIABLES if name in os.environ}
            made["env_vars"] = {**made.get("env_vars", {}), **ours}
            return made

        return get_ppo_ray_runtime_env

    _replace(module, "get_ppo_ray_runtime_env", with_ours)


def _found(owner: Any, name: str) -> Any:
    try:
        return getattr(owner, name)
    except AttributeError:
        version = getattr(sys.modules.get("verl"), "__version__", "")
        raise ImportError(
            f"{owner.__name__} of verl {version} has no {name}; batchplan plans for verl 0.9.1 and its main "
            "branch of August 2026. Unset BATCHPLAN to run without it"
        ) from None


def _replace(owner: Any, name: str, made: Callable[[Any], Any]) -> None:
    stock = _found(owner, name)
    if getattr(stock, _MARK, False):
        return
    setattr(owner, name, _marked(made(stock)))


def _marked(planned: Any) -> Any:
    setattr(planned, _MARK, True)
    return planned


# rearrange_micro_batches is imported by value, so it is changed where it is used too.
_CHANGES: dict[str, Callable[[ModuleType], None]] = {
    "verl.utils.seqlen_balancing": _micro_batches,
    "verl.workers.engine.utils": _micro_batches,
    "verl.utils.dynamic_cp_scheduler": _groups,
    "verl.trainer.constants_ppo": _environment,
    "verl.trainer.ppo.ray_trainer": _ray_trainer,
    "verl.trainer.ppo.v1.trainer_base": _queue_trainer,
    "verl.trainer.ppo.v1.agent_loop_tq": _agent_loops,
    "verl.workers.engine_workers": _workers,
}
