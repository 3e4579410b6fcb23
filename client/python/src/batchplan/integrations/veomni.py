"""For VeOmni: which samples of its buffer make a micro-batch, and which rank encodes an image.

    + import batchplan.integrations.veomni
    + batchplan.integrations.veomni.install(max_patches=24576)
      class MyTrainer(VLMTrainer): ...

at the top of the script that trains, so that workers that are spawned have it too. The configuration stays as it is.

Each rank batches its own stream and knows nothing of the others. With dynamic batching VeOmni takes from its buffer
what fits, in order; so micro-batches are alike in tokens, and may be anything but alike in attention and images. From
here on the oldest samples of the buffer, enough for several micro-batches, are planned together: alike in tokens'
cost, alike in patches, none with more patches than max_patches, and the one that has the oldest sample is next.
Checkpoints have the buffer as before. Batches of a fixed number of samples (dyn_bsz=False) are not reached.

With encoder_data_balance the images that all ranks have at one time go to the ranks by what they cost, in place of
their squares. Releases 0.1.7 to 0.1.9 run it, in Qwen3-VL's mixture of experts; later ones have the setting and the
class, but no model of theirs calls it.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

import batchplan
from batchplan._checks import whole
from batchplan.integrations._images import LOAD, Images, patches_of
from batchplan.integrations._replace import stock_of, wrap
from batchplan.integrations._slots import options_of, slots_or_none

__all__ = ["QWEN3_VL_ENCODER", "install"]

# What an image of so many patches costs Qwen3-VL's encoder: layers of width 1152 and 4304, in which attention is
# over the image.
QWEN3_VL_ENCODER = batchplan.CostModel(1.0, 1 / (2 * 1152 + 4304))


def install(
    *,
    cost: batchplan.CostModel | None = None,
    effort: str | None = "fast",
    rows: int = 8,
    patch_cost: float = 0.0,
    max_patches: int | None = None,
    encoder_cost: batchplan.CostModel = QWEN3_VL_ENCODER,
) -> None:
    """Has VeOmni's dynamic batching, in the main process or in workers, take planned micro-batches, and its balance of
    encoders deal images by cost. Call it before the model is made.

    Args:
        cost: of this model, for what micro-batches are alike in.
        effort: of each plan; each micro-batch has one.
        rows: how many micro-batches are planned together, at most.
        patch_cost: what the encoder takes for a patch, as a part of what the model takes for a token: about the
            encoder's parameters over the model's, and a third of it where the encoder is not trained.
        max_patches: of a micro-batch, of images and videos; a sample that has more alone is alone in it. None: any
            number.
        encoder_cost: of an image by its patches in place of tokens, for the balance of encoders.

    Raises:
        ImportError: VeOmni is not there.
        ValueError: an option is none that there is.
    """
    options = options_of(cost, None, effort)
    options_of(encoder_cost, None, None)
    images = Images(patch_cost, max_patches)
    if whole("rows", rows) < 1:
        raise batchplan.InvalidRequest(f"rows is {rows}; must be at least 1")
    chooser = _Chooser(options, images, rows)
    buffers: Any = importlib.import_module("veomni.data.dynamic_batching").DynBszBuffer
    datasets: Any = importlib.import_module("veomni.data.dataset")
    wrap(buffers, "get_samples", chooser.of_buffer)
    if hasattr(datasets, "DynamicBatchingSizeDataset"):
        wrap(datasets.DynamicBatchingSizeDataset, "_get_micro_batch", chooser.of_dataset)
    try:
        rules = importlib.import_module("veomni.utils.data_balance.balance_sorting_algo").SORTING_ALGO_FUNC
    except ImportError:
        return  # a version without
    for name, rule in list(rules.items()):
        rules[name] = _dealing(stock_of(rule), encoder_cost)


class _Chooser:
    """Chooses the samples of the next micro-batch."""

    def __init__(self, options: batchplan.PlanOptions, images: Images, rows: int) -> None:
        self._options, self._images, self._rows = options, images, rows
        cost = options.get("cost")
        self._cost = cost if isinstance(cost, batchplan.CostModel) else batchplan.DEFAULT_COST

    def of_buffer(self, stock: Any) -> Any:
        @functools.wraps(stock)
        def get_samples(
            buffer: Any, n_token_per_iter: int, force: bool = True, physical_token_cap: int | None = None
        ) -> Any:
            taken = set(buffer.del_idxs)
            left = [place for place in range(len(buffer)) if place not in taken]
            if not left or not force:
                capped = () if physical_token_cap is None else (physical_token_cap,)
                return stock(buffer, n_token_per_iter, force, *capped)
            lengths = [buffer._buffer_sample_lens[place] for place in left]
            # Of versions that count them.
            physical = getattr(buffer, "_buffer_physical_lens", buffer._buffer_sample_lens)
            samples = [buffer._buffer[place] for place in left]
            row = self.choose(
                lengths, [physical[place] for place in left], samples, n_token_per_iter, physical_token_cap
            )
            buffer.del_idxs += [left[place] for place in row]
            return [samples[place] for place in row]

        return get_samples

    def of_dataset(self, stock: Any) -> Any:
        @functools.wraps(stock)
        def _get_micro_batch(dataset: Any) -> Any:
            entries = dataset._buffer
            lengths = [entry[1] for entry in entries]
            physical = [entry[-1] for entry in entries]
            samples = [entry[0] for entry in entries]
            cap = getattr(dataset, "physical_token_cap", None)
            row = self.choose(lengths, physical, samples, dataset.micro_batch_seq_length, cap)
            # VeOmni's own takes all of a buffer that holds these alone, and keeps its counts and places.
            of_row = set(row)
            kept = [place for place in range(len(entries)) if place not in of_row]
            places = dataset._buffer_of_output_index
            dataset._buffer = [entries[place] for place in row]
            if dataset.save_by_idx:
                dataset._buffer_of_output_index = [places[place] for place in row]
            micro_batch = stock(dataset)
            dataset._buffer += [entries[place] for place in kept]
            if dataset.save_by_idx:
                dataset._buffer_of_output_index += [places[place] for place in kept]
            return micro_batch

        return _get_micro_batch

    def choose(
        self,
        lengths: Sequence[int],
        physical: Sequence[int],
        samples: Sequence[Any],
        budget: int,
        cap: int | None,
    ) -> list[int]:
        """The samples of the micro-batch that the oldest one is in, as positions.

        Args:
            lengths: what VeOmni counts of each sample, of which a micro-batch has at most `budget`.
            physical: tokens of each sample, of which it has at most `cap`.
        """
        tokens = numpy.maximum(lengths, 1)
        loads = {"cost": self._cost.of_sequences(physical), "tokens": numpy.asarray(physical)}
        loads[LOAD] = numpy.array([patches_of(sample) for sample in samples])
        limits: dict[str, float] = {}
        if cap is not None:
            limits["tokens"] = cap
        if self._images.max_patches is not None:
            limits[LOAD] = self._images.max_patches
        rows = int(min(self._rows, max(1, tokens.sum() // budget)))
        # Of the oldest, as many as so many micro-batches hold.
        fitting = min(
            _count(values, rows * most)
            for values, most in ((tokens, budget), *((loads[name], most) for name, most in limits.items()))
        )
        costs = [batchplan.LoadCost("cost", 1.0)]
        if self._images.patch_cost:
            costs.append(batchplan.LoadCost(LOAD, self._images.per_patch(self._cost), separate=True))
        request: batchplan.PlanOptions = {
            **self._options,
            "cost": batchplan.CostModel(0.0, loads=costs),
            "passes": [batchplan.Pass(budget, limits=limits or None)],
            "overlong": "alone",
        }
        while True:
            rows = min(rows, fitting)
            request["dp"] = rows
            request["loads"] = {name: values[:fitting] for name, values in loads.items()}
            slots = slots_or_none(tokens[:fitting], request)
            if slots is not None and len(slots) == 1:
                return sorted(next(row for row in slots[0] if 0 in row))
            fitting -= max(1, fitting // 32)


def _count(values: NDArray[Any], most: float) -> int:
    """How many of the first add up to at most that; one at least."""
    return max(1, int(numpy.searchsorted(numpy.cumsum(values), most, "right")))


def _dealing(stock: Any, cost: batchplan.CostModel) -> Any:
    """A rule of VeOmni's that deals by cost. Every rank deals all images, and all alike."""
    import torch

    # Later versions return a tensor of each rank, earlier ones a list of its rows.
    is_split = isinstance(stock(torch.ones(1, 1, dtype=torch.long), 1, 0)[0], torch.Tensor)

    @functools.wraps(stock)
    def deal(all_data_lengths: Any, num_replicas: int, dim: int) -> Any:
        costs = cost.of_sequences(all_data_lengths[:, dim].cpu().numpy())
        plan = batchplan.plan(
            [1] * num_replicas,
            dp=num_replicas,
            max_tokens=1,
            # Where images are has no part in where they go.
            ranks=range(num_replicas),
            items={LOAD: [costs, *[[]] * (num_replicas - 1)]},
            cost=batchplan.CostModel(0.0, loads=[batchplan.LoadCost(LOAD, 1.0, dealt=True)]),
            effort="fast",
        )
        ranks = plan.item_ranks[LOAD].astype(numpy.int64)
        order = torch.from_numpy(numpy.argsort(ranks, kind="stable")).to(all_data_lengths.device)
        counts = numpy.bincount(ranks, minlength=num_replicas).tolist()
        parts = list(all_data_lengths[order].split(counts))
        return parts if is_split else [list(part) for part in parts]

    deal._batchplan_replaces = stock  # type: ignore[attr-defined]
    return deal
