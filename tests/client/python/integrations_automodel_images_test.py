"""batchplan.integrations.automodel: rows of text and images, in an AutoModel of small classes of the names that get it."""

import sys
import types

import numpy
import pytest

torch = pytest.importorskip("torch")

from batchplan import CostModel
from batchplan.integrations import automodel
from batchplan.integrations._replace import stock_of
from lengths import assert_each_once
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

WIDTH, RANKS, STEPS, MERGE = 4096, 2, 3, 4


def samples(count=300, seed=0):
    """[text tokens, media tokens] of each, of which some have no images."""
    random = numpy.random.default_rng(seed)
    text = numpy.clip(random.lognormal(5, 1, count), 2, 2000).astype(int)
    media = random.integers(1, 5, count) * 256 * (random.random(count) < 0.5)
    return list(map(tuple, numpy.stack([text, media], 1).tolist()))


class Rows:
    """What AutoModel's packer returns: rows are made when they are asked for."""

    def __init__(self, data, bins):
        self.data, self.bins, self.read = data, bins, []

    def __len__(self):
        return len(self.bins)

    def __getitem__(self, row):
        self.read.append(row)
        return {"row": row, "labels": torch.tensor(self.bins[row])}


def _estimate_sample_length(example, image_cfg=None, video_cfg=None, return_media_tokens=False):
    text, media = example
    return (text + media, media) if return_media_tokens else text + media


def neat_pack_dataset_vlm(
    dataset, pack_size, padding_idx=0, drop_long_samples=False, max_packs=None, ds_raw=None, packing_ratio=1.0,
    processor=None, sequence_alignment=1,
):
    """Next fit of what was estimated."""
    estimate = sys.modules["nemo_automodel.components.datasets.vlm.neat_packing_vlm"]._estimate_sample_length
    bins, room = [], 0
    for place, example in enumerate(ds_raw or []):
        length = -(-(estimate(example, return_media_tokens=True)[0] - 1) // sequence_alignment) * sequence_alignment
        if length > pack_size and drop_long_samples:
            continue
        length = min(length, int(pack_size * packing_ratio))
        if length > room:
            bins.append([])
            room = int(pack_size * packing_ratio)
        bins[-1].append(place)
        room -= length
    return Rows(dataset, bins[:max_packs])


def collate(items):
    return {"row": [item["row"] for item in items], "labels": items[0]["labels"]}


def first_labels(loader):
    """The rows of each micro-batch, none where no token counts."""
    return [[] if (batch["labels"] == -100).all() else batch["row"] for batch in loader]


@pytest.fixture
def vlm(monkeypatch):
    modules = {}

    def module(name, **members):
        modules[name] = types.ModuleType(name)
        vars(modules[name]).update(members)
        monkeypatch.setitem(sys.modules, name, modules[name])

    class ParallelAwareDataloader(DataLoader):
        pass

    class StepScheduler:
        def __init__(self, global_batch_size, local_batch_size, dp_size, dataloader):
            self.dataloader = dataloader

    class VlmDataloaderConfig:
        def __init__(self, data, dataset_config=None, shuffle=True, drop_last=False, **packing):
            self.data, self.packing = data, packing
            self.dataset_config, self.shuffle, self.drop_last = dataset_config, shuffle, drop_last

        def build(self, *, dp_rank, dp_world_size, batch_size, pp_n_microbatches=None):
            pack = modules["nemo_automodel.components.datasets.vlm.neat_packing_vlm"].neat_pack_dataset_vlm
            dataset = pack(dataset=self.data, ds_raw=self.data, pack_size=WIDTH, **self.packing)
            sampler = DistributedSampler(dataset, num_replicas=dp_world_size, rank=dp_rank, shuffle=self.shuffle)
            made = modules["nemo_automodel.components.datasets.vlm.loader"].StatefulDataLoader
            return made(
                dataset=dataset, sampler=sampler, collate_fn=collate, batch_size=batch_size, num_workers=0,
                drop_last=self.drop_last,
            )  # fmt: skip

    for name in ("", ".components", ".components.datasets", ".components.datasets.vlm", ".components.training"):
        module(f"nemo_automodel{name}")
    module("nemo_automodel.components.datasets.loader", ParallelAwareDataloader=ParallelAwareDataloader)
    module("nemo_automodel.components.training.step_scheduler", StepScheduler=StepScheduler)
    module(
        "nemo_automodel.components.datasets.vlm.neat_packing_vlm", _estimate_sample_length=_estimate_sample_length,
        neat_pack_dataset_vlm=neat_pack_dataset_vlm)
    module(
        "nemo_automodel.components.datasets.vlm.loader", StatefulDataLoader=DataLoader,
        VlmDataloaderConfig=VlmDataloaderConfig)
    packing = modules["nemo_automodel.components.datasets.vlm.neat_packing_vlm"]
    return types.SimpleNamespace(config=VlmDataloaderConfig, scheduler=StepScheduler, packing=packing)


def loaded(vlm, config, of_device=1, **more):
    """A loader of each rank, of which its scheduler knows."""
    found = []
    for rank in range(RANKS):
        loader = config.build(dp_rank=rank, dp_world_size=RANKS, batch_size=of_device, **more)
        vlm.scheduler(of_device * RANKS * STEPS, of_device, dp_size=RANKS, dataloader=loader)
        found.append(loader)
    return found


def patches_of(data, rows):
    return [sum(data[place][1] for place in row) * MERGE for row in rows]


def test_rows_are_dealt_and_are_automodels_own_without_a_limit(vlm):
    data = samples()
    own = vlm.packing.neat_pack_dataset_vlm(data, WIDTH, ds_raw=data).bins
    automodel.install(cost=CostModel(1.0, 1 / 64))
    automodel.install(cost=CostModel(1.0, 1 / 64))
    loaders = loaded(vlm, vlm.config(data))
    assert loaders[0].dataset.bins == own
    costs = [sum((sum(data[place]) - 1) + (sum(data[place]) - 1) ** 2 / 64 for place in row) for row in own]
    of_ranks = [first_labels(loader) for loader in loaders]
    assert_each_once([row for rank in of_ranks for row in rank], len(own))
    # Alike in each slot, as far as those of its step go.
    for begin in range(0, len(of_ranks[0]) - STEPS, STEPS):
        step = numpy.array([[costs[rank[slot][0]] for slot in range(begin, begin + STEPS)] for rank in of_ranks])
        best = numpy.sort(step.ravel()).reshape(STEPS, RANKS)[:, -1].sum()
        assert step.max(0).sum() == pytest.approx(best, rel=1e-4)
    # No row was read but the dummy, before the training asked for it.
    assert set(loaders[0].dataset.read) - {row for batch in of_ranks[0] for row in batch} <= {loaders[0].dataset.read[0]}


@pytest.mark.parametrize("most", [4096, 2000])
@pytest.mark.parametrize("packing", [{}, {"packing_ratio": 0.8}, {"sequence_alignment": 16}])
def test_no_row_has_more_patches_than_allowed(vlm, most, packing):
    data = samples(5000)
    before = vlm.packing.neat_pack_dataset_vlm(data, WIDTH, ds_raw=data, **packing).bins
    assert max(patches_of(data, before)) > 4096
    automodel.install(max_patches=most)
    bins = vlm.packing.neat_pack_dataset_vlm(data, WIDTH, ds_raw=data, **packing).bins
    assert_each_once(bins, 5000)
    for row, patches in zip(bins, patches_of(data, bins)):
        assert patches <= most or sum(data[place][1] > 0 for place in row) == 1 == len(row)
        lengths = [sum(data[place]) - 1 for place in row]
        aligned = [-(-length // packing.get("sequence_alignment", 1)) * packing.get("sequence_alignment", 1) for length in lengths]
        assert sum(aligned) <= WIDTH * packing.get("packing_ratio", 1) or len(row) == 1


def test_long_samples_and_row_counts_are_automodels(vlm):
    data = [(100, 256)] * 40 + [(5000, 0)]
    automodel.install(max_patches=2048)

    def bins(**packing):
        return vlm.packing.neat_pack_dataset_vlm(data, WIDTH, ds_raw=data, **packing).bins

    assert_each_once(bins(), 41)
    assert_each_once(bins(drop_long_samples=True), 40)
    assert len(bins(max_packs=3)) == 3
    # Of a processor whose patches are not merged.
    single = types.SimpleNamespace(image_processor=types.SimpleNamespace(merge_size=1))
    assert len(bins()) > 2 * len(bins(processor=single))


@pytest.mark.parametrize("synchronization, slots", [("accumulated", STEPS), ("lockstep", 1)])
def test_rows_are_dealt_by_patches_too(vlm, synchronization, slots):
    random = numpy.random.default_rng(0)
    # Rows of like tokens.
    data = [(2200 - int(media), int(media)) for media in random.integers(1, 2000, 120)]

    def heaviest(**options):
        """Patches of the rank that has most, of as many slots as ranks run without a wait."""
        automodel.install(cost=CostModel(1.0), synchronization=synchronization, **options)
        loaders = loaded(vlm, vlm.config(data, drop_last=True))
        bins = patches_of(data, loaders[0].dataset.bins)
        of_ranks = [[bins[row] for batch in first_labels(one) for row in batch] for one in loaders]
        return sum(max(sum(own[begin : begin + slots]) for own in of_ranks) for begin in range(0, len(of_ranks[0]), slots))

    assert heaviest(patch_cost=10.0) < heaviest()
    states = []
    for cost in (5.0, 10.0):
        automodel.install(patch_cost=cost, synchronization=synchronization)
        states.append(loaded(vlm, vlm.config(data))[0].batch_sampler)
    with pytest.raises(ValueError, match="cost_model.loads"):
        states[0].load_state_dict(states[1].state_dict())


@pytest.mark.parametrize("options", [{"drop_last": True}, {}])
def test_what_does_not_divide_is_dropped_or_has_dummies(vlm, options):
    data = samples()
    automodel.install()
    more = {} if options else {"pp_n_microbatches": 2}
    for given, expected in ((options, True), ({}, False)):
        loaders = loaded(vlm, vlm.config(data, **given), **(more if expected else {}))
        count = len(loaders[0].dataset)
        of_ranks = [first_labels(loader) for loader in loaders]
        seen = sum(len(batch) for own in of_ranks for batch in own)
        assert seen == (count // (RANKS * STEPS) * RANKS * STEPS if expected else count)


def test_what_is_not_dealt_is_automodels_or_refused(vlm):
    data = samples(60)
    automodel.install(max_patches=2048)
    assert not hasattr(vlm.packing.neat_pack_dataset_vlm([], WIDTH), "batchplan_rows")
    empty = vlm.config([]).build(dp_rank=0, dp_world_size=1, batch_size=1)
    with pytest.raises(ValueError, match="are not packed beforehand, or have a sampler of their own"):
        vlm.scheduler(RANKS, 1, dp_size=1, dataloader=empty)
    parts = types.SimpleNamespace(builds_with_data_parallel_rank=True)
    with pytest.raises(ValueError, match="dataset_config is a SimpleNamespace, of which each rank reads a part"):
        vlm.config(data, dataset_config=parts).build(dp_rank=0, dp_world_size=1, batch_size=1)
    for wrong in ({"patch_cost": -1}, {"max_patches": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            automodel.install(**wrong)
    assert stock_of(vlm.packing.neat_pack_dataset_vlm) is neat_pack_dataset_vlm


def test_a_version_without_images_does(vlm, monkeypatch):
    monkeypatch.setitem(sys.modules, "nemo_automodel.components.datasets.vlm.loader", None)
    automodel.install()
    assert vlm.packing.neat_pack_dataset_vlm is neat_pack_dataset_vlm
