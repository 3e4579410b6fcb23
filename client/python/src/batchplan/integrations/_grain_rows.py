"""Planned rows as a dataset of grain, which this imports: a module of its own, for trainers that have it."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import batchplan
from batchplan.integrations._packed_stream import STATE, Window

__all__ = ["Rows", "Samples"]

grain: Any = importlib.import_module("grain.python")


class Samples:
    """These, as the configuration of a dataset."""

    def __init__(self, samples: Sequence[Any]) -> None:
        self._samples = samples

    def build(self, **_: Any) -> Any:
        at_once = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
        return grain.MapDataset.source(self._samples).to_iter_dataset(at_once)


class Rows(grain.IterDataset):  # type: ignore[misc]
    """Rows of the windows of a dataset."""

    def __init__(
        self, samples: Any, window: Callable[[], Window], made: Callable[[list[Any]], Any]
    ) -> None:
        """
        Args:
            samples: an IterDataset.
            window: a new one.
            made: the row of samples that fit in one.
        """
        super().__init__(samples)
        self._of = samples, window, made

    def __iter__(self) -> Any:
        samples, window, made = self._of
        return RowsIterator(iter(samples), window, made)


class RowsIterator(grain.DatasetIterator):  # type: ignore[misc]
    """Its state is that of the samples at the window's beginning, and the window."""

    def __init__(
        self, samples: Any, window: Callable[[], Window], made: Callable[[list[Any]], Any]
    ) -> None:
        super().__init__(samples)
        self._samples, self._new_window, self._made = samples, window, made
        self._begin_with(window())

    def _begin_with(self, window: Window) -> None:
        self._window = window
        self._rows = window.rows(self._samples, self._samples.get_state)

    def __next__(self) -> Any:
        return self._made(next(self._rows))

    def get_state(self) -> dict[str, Any]:
        own = self._window.state_dict()
        begin = own.pop("begin")
        # Checkpoints want the same names at any time.
        return {
            "samples": self._samples.get_state() if begin is None else begin,
            STATE: pickle.dumps(own),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        if STATE not in state:
            raise batchplan.InvalidRequest(
                "this checkpoint's rows were packed by torchtitan's own packer, which alone can finish "
                "them: go on without install_sft(), or begin the data anew"
            )
        begin = state["samples"]
        self._samples.set_state(begin)
        window = self._new_window()
        window.resume({"begin": begin, **pickle.loads(state[STATE])}, self._samples)
        self._begin_with(window)
