"""For ART: which sequences share a packed row of its Megatron backend, and which rows run at the same time.

In the script that makes the backend, before that starts its processes:

    + import batchplan.integrations.art
    + batchplan.integrations.art.install(dp=8)
      backend = MegatronBackend(...)

ART lays once what the sequences of a row have in common. By itself it places each into the row that it leaves fullest,
the longest groups first, and deals the rows to the ranks in a random order. Planned, rows that run at the same time are
alike, and with one rank there are fewer.
"""

from __future__ import annotations

import contextvars
import dataclasses
import functools
import importlib
import logging
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import batchplan
from batchplan._checks import whole
from batchplan.integrations._replace import wrap
from batchplan.integrations._slots import slots_or_none

__all__ = ["install", "install_in_worker"]

_log = logging.getLogger("batchplan")
_PACK = "art.preprocessing.pack"
_USED = ("_prefix_tree_pack_rows", "_place_prefix_tree_leaves", "_PrefixTreeBin", "_PrefixTreeLeaf")
_FIELDS = ("segment_path", "empty_bin_cost")
# ART places units of several sequences by it, where it has it.
_UNITS = "_place_prefix_tree_groups"


@dataclasses.dataclass(frozen=True)
class _Trainer:
    """How ART's trainer runs the rows of a batch."""

    # Data-parallel ranks, to which rows are dealt in turn.
    dp: int
    # Rows of an optimizer step, the last one's filled up with empty rows; 0: one step has all rows.
    step_rows: int
    # Every row is padded to so many tokens; 0: none is.
    width: int
    cost: batchplan.CostModel

    @property
    def shuffles(self) -> bool:
        return self.step_rows > 0

    def seats(self, rows: int) -> int:
        """So many rows and the empty ones."""
        multiple = self.step_rows or self.dp
        return -(-rows // multiple) * multiple

    def time(self, rows: Sequence[Any]) -> float:
        """Of these bins in the order in which they run: a rank waits at every row for the slowest."""
        costs = [self.cost_of(row) for row in rows]
        # An empty row is a copy of the first one that has no loss.
        costs += [costs[0]] * (self.seats(len(costs)) - len(costs))
        return sum(max(costs[begin : begin + self.dp]) for begin in range(0, len(costs), self.dp))

    def cost_of(self, row: Any) -> float:
        squares = 0
        laid = set()
        for leaf in row.leaves:
            depth = 0
            for segment, tokens in leaf.segment_path:
                if segment not in laid:
                    laid.add(segment)
                    squares += (depth + tokens) ** 2 - depth**2
                depth += tokens
        return (
            self.cost.per_token * (self.width or row.token_count)
            + self.cost.per_token_squared * squares
            + self.cost.per_sequence * len(row.leaves)
            + self.cost.per_microbatch
        )


# Of the batch whose rows are being chosen; None where ART chooses by itself.
_trainer = contextvars.ContextVar[_Trainer | None]("batchplan_art_trainer", default=None)


def install(
    *, dp: int = 1, grad_accumulation_sequences: int | None = None, cost: batchplan.CostModel | None = None
) -> None:
    """Puts planned rows in the place of ART's: in this process, which packs SFT's, and in those that backends start
    afterwards on their hosts, which pack RL's.

    There are at most as many rows as ART's trainer runs by itself, empty ones included, and ART's own where no plan is
    predicted to be faster. Which rows make up an optimizer step is random, as in ART; of a step that has several rows
    a rank, which runs of alike rows. ART's autotuner estimates by ART's own rule.

    Args:
        dp: data-parallel ranks of the trainer. With one, rows are as few as can be found.
        grad_accumulation_sequences: rows of an optimizer step, as TrainConfig has it; dp unless given, as in ART.
        cost: what is balanced; that of a model of 7B parameters unless given.

    Raises:
        ImportError: there is no ART.
        ValueError: dp does not divide grad_accumulation_sequences.
        FailedPrecondition: its version chooses rows otherwise, or starts its hosts otherwise.
    """
    install_in_worker(dp=dp, grad_accumulation_sequences=grad_accumulation_sequences, cost=cost)
    try:
        runtime: Any = importlib.import_module("art.distributed.art_runtime")
    except ImportError:
        return  # where no Megatron backend can run
    bootstrap = "activate_cpu_child_virtualenv"
    if not hasattr(runtime, bootstrap):
        raise batchplan.FailedPrecondition(
            f"art.distributed.art_runtime has no {bootstrap}; ART 0.5.20 to 0.5.23 have. Call install_in_worker() in "
            "the processes that pack, or leave install() out"
        )

    def planning(stock: Any) -> Any:
        # Goes to other processes pickled.
        return functools.partial(_start_planned, stock, dp, grad_accumulation_sequences, cost)

    wrap(runtime, bootstrap, planning, everywhere=False)


def _start_planned(stock: Callable[[], None], dp: int, step_rows: int | None, cost: batchplan.CostModel | None) -> None:
    """What a host's process begins with."""
    stock()
    install_in_worker(dp=dp, grad_accumulation_sequences=step_rows, cost=cost)


def install_in_worker(
    *, dp: int = 1, grad_accumulation_sequences: int | None = None, cost: batchplan.CostModel | None = None
) -> None:
    """The part of `install` that a process needs which packs rows.

    Raises:
        ImportError: there is no ART.
        ValueError: dp does not divide grad_accumulation_sequences.
        FailedPrecondition: its version chooses rows otherwise.
    """
    if whole("dp", dp) < 1:
        raise batchplan.InvalidRequest(f"dp is {dp}; must be at least 1")
    step_rows = dp if grad_accumulation_sequences is None else grad_accumulation_sequences
    if whole("grad_accumulation_sequences", step_rows) < 1 or step_rows % dp:
        raise batchplan.InvalidRequest(
            f"grad_accumulation_sequences is {step_rows}; must be a positive multiple of dp, {dp}"
        )
    pack: Any = importlib.import_module(_PACK)
    _refuse_others(pack)
    told: set[str] = set()

    def within_trainer(stock: Any) -> Any:
        @functools.wraps(stock)
        def _prefix_tree_pack_rows(items: Any, *, seq_len: int, rebuild_rows: bool = True, **options: Any) -> Any:
            if not rebuild_rows:
                options["rebuild_rows"] = False
            # These are SFT's: as wide as they are, in one step, in their order.
            padded = rebuild_rows
            trainer = _Trainer(dp, step_rows if padded else 0, seq_len if padded else 0, cost or batchplan.DEFAULT_COST)
            before = _trainer.set(trainer)
            try:
                rows = stock(items, seq_len=seq_len, **options)
                if all(sum(segment.length for segment in plan.segments) <= seq_len for _, plan in rows):
                    return rows
                why = f"a row has more than {seq_len} tokens when it is built"
            except RuntimeError as error:
                # Sharing is decided anew within each row, and may be less than among all.
                why = str(error)
            finally:
                _trainer.reset(before)
            rows = stock(items, seq_len=seq_len, **options)
            if why not in told:
                _log.warning("batchplan: rows are ART's own, since of planned ones: %s", why)
            told.add(why)
            return rows

        return _prefix_tree_pack_rows

    def planning(stock: Any) -> Any:
        @functools.wraps(stock)
        def _place_prefix_tree_leaves(groups: Iterable[Sequence[Any]], *, seq_len: int, **options: Any) -> Any:
            trainer = _trainer.get()
            if trainer is None:
                return stock(groups, seq_len=seq_len, **options)
            groups = list(groups)
            own = stock(groups, seq_len=seq_len, **options)
            leaves = [leaf for group in groups for leaf in group]
            return _fastest(trainer, own, leaves, seq_len, pack._PrefixTreeBin)

        return _place_prefix_tree_leaves

    wrap(pack, "_place_prefix_tree_leaves", planning)
    wrap(pack, "_prefix_tree_pack_rows", within_trainer)


def _refuse_others(pack: Any) -> None:
    missing = [name for name in _USED if not hasattr(pack, name)]
    if not missing:
        fields = getattr(pack._PrefixTreeLeaf, "_fields", ())
        missing = [f"_PrefixTreeLeaf.{name}" for name in _FIELDS if name not in fields]
    if missing:
        raise batchplan.FailedPrecondition(f"{_PACK} has no {', '.join(missing)}; ART 0.5.20 to 0.5.23 have")
    if hasattr(pack, _UNITS):
        raise batchplan.FailedPrecondition(
            f"{_PACK} has {_UNITS}, by which sequences must stay together in ways not planned here; ART 0.5.20 to "
            "0.5.23 have none"
        )


def _fastest(trainer: _Trainer, own: list[Any], leaves: list[Any], seq_len: int, new_bin: Callable[[], Any]) -> Any:
    """Bins of these leaves in the order in which ART is to have them: its own, the fewest, or planned for all ranks."""

    def bin_of(row: Sequence[int]) -> Any:
        made = new_bin()
        for place in row:
            made.add(leaves[place])
        return made

    shared_prefixes, shared_with = _relations(leaves)
    lengths = [max(leaf.empty_bin_cost, 1) for leaf in leaves]
    chosen = [own]
    # Where rows are not padded, more of them may be faster, if there is room for more.
    for rows in ("capacity",) if trainer.width else ("none", "capacity"):
        for dp in dict.fromkeys((1, trainer.dp)):
            options: batchplan.PlanOptions = {
                "dp": dp,
                "cost": trainer.cost,
                "shared_prefixes": shared_prefixes,
                "shared_with": shared_with,
                "passes": [batchplan.Pass(seq_len, rows=rows)],  # type: ignore[arg-type]
            }
            slots = slots_or_none(lengths, options)
            if slots is not None and trainer.seats(len(slots) * dp) <= trainer.seats(len(own)):
                chosen.append([bin_of(row) for slot in slots for row in slot])
    found = [[own[place] for place in _shuffled(len(own))] if trainer.shuffles else own]
    found += [_in_order(trainer, bins) for bins in chosen]
    run = min(found, key=trainer.time)
    if not trainer.shuffles:
        return run
    before: list[Any] = [None] * len(run)
    for row, place in zip(run, _shuffled(len(run))):
        before[place] = row
    return before


def _in_order(trainer: _Trainer, rows: list[Any]) -> list[Any]:
    """As these rows are to run: those that run at the same time are alike, and the first one, which is copied where
    rows are missing, is cheap."""
    rows = sorted(rows, key=trainer.cost_of)
    if not trainer.seats(len(rows)) > trainer.step_rows > 0:
        return rows
    # Steps of one row a rank would have only long sequences, or only short ones.
    together = trainer.dp if trainer.step_rows > trainer.dp else 1
    runs = [rows[begin : begin + together] for begin in range(0, len(rows), together)]
    # Empty rows stand behind all others.
    last = runs.pop() if len(runs[-1]) < together else []
    random.Random(len(runs)).shuffle(runs)
    return [row for run in runs for row in run] + last


def _shuffled(count: int) -> list[int]:
    """From which places among so many rows they come after ART's shuffle, which is the same for every batch of them."""
    places = list(range(count))
    random.Random(count).shuffle(places)
    return places


def _relations(leaves: Sequence[Any]) -> tuple[list[int], list[int]]:
    """shared_prefixes and shared_with: ART has found already which segments sequences have in common."""
    first_with: dict[int, int] = {}
    shared_prefixes, shared_with = [], []
    for place, leaf in enumerate(leaves):
        depth = shared = other = 0
        for segment, tokens in leaf.segment_path:
            depth += tokens
            if segment in first_with:
                shared, other = depth, first_with[segment]
            else:
                first_with[segment] = place
        shared_prefixes.append(shared)
        shared_with.append(other)
    return shared_prefixes, shared_with
