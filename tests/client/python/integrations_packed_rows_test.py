"""Trainers whose own loaders get packed rows dealt by plan: ms-swift's and NeMo AutoModel's, of which modules of the
same names have as much as is used."""

import itertools
import sys
import types

import numpy
import pytest

torch = pytest.importorskip("torch")

from batchplan import CostModel, LoadCost
from batchplan.integrations import automodel, ms_swift
from batchplan.integrations._packed_rows import are_packed, rows_of
from batchplan.integrations._replace import stock_of
from torch.utils.data import DataLoader

COST, WIDTH, RANKS, STEPS = CostModel(1.0, 1 / 64), 64, 2, 3


def lengths_of(count=60):
    """Of rows of 64 tokens."""
    random = numpy.random.default_rng(0)
    rows = []
    for _ in range(count):
        cuts = numpy.sort(random.choice(numpy.arange(1, WIDTH), int(random.integers(0, 6)), replace=False))
        rows.append(numpy.diff([0, *cuts, WIDTH]).tolist())
    return rows


def modules(monkeypatch, **named):
    for name, contents in named.items():
        path = name.replace("__", ".")
        module = types.ModuleType(path)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, path, module)
    return [sys.modules[name.replace("__", ".")] for name in named]


def assert_dealt(of_ranks, rows, steps=STEPS, count=None, beside=0.0):
    """Each row once, in slots of like cost, with what it costs beside; micro-batches without rows at the end alone."""
    seen = [row for batches in of_ranks for batch in batches for row in batch]
    assert sorted(seen) == list(range(len(rows) if count is None else count))
    costs = numpy.array([COST.of_sequences(row).sum() for row in rows]) + beside
    for begin in range(0, len(of_ranks[0]) - steps, steps):
        times = numpy.array([[costs[one].sum() for one in own[begin : begin + steps]] for own in of_ranks])
        best = numpy.sort(times.ravel()).reshape(steps, RANKS)[:, -1].sum()
        assert times.max(0).sum() == pytest.approx(best)


# Of any dataset.


@pytest.mark.parametrize("positions, width", [([0, 1, 2, 3, 0, 1, 2, 3, 0, 0], 10), ([0, 1, 2, 0], 4)])
def test_a_row_is_as_wide_as_its_positions(positions, width):
    rows = rows_of([{"position_ids": positions}, {"position_ids": [0, 1, 0, 1]}])
    assert rows.widths.tolist() == [width, 4] and rows.lengths_of(1).tolist() == [2, 2]
    # Zeros at the end are of no sequence, and cost nothing.
    assert rows.costs(CostModel(1.0))[0] == width - (2 if width == 10 else 1)
    assert rows.most({"max_tokens": 2 * width}) == 2 and rows.most({"max_tokens": 2 * width - 1}) == 1


@pytest.mark.parametrize("entry", [
    [[0, 1, 2]] * 3, [[0, 1], [0]], torch.tensor([[0, 1, 2]]), 3, None, [0.0, 1.0], "abc", [None, 1], {"a": 1}])
def test_a_column_of_other_things_is_not_taken(entry):
    for column in ("seq_lengths", "seq_lens", "position_ids"):
        assert rows_of([{"input_ids": [1, 2, 3], column: entry}] * 3) is None
    # The next one may be of rows.
    rows = rows_of([{"seq_lengths": entry, "position_ids": [0, 0, 1]}] * 300)
    assert rows.counts.tolist() == [2] * 300


def test_rows_are_read_up_to_the_first_that_is_packed():
    class Rows(list):
        def __getitem__(self, row):
            assert row < 512
            return super().__getitem__(row)

    assert are_packed(Rows([{"seq_lens": [1]}] * 300 + [{"seq_lens": [1, 2]}] + [{"seq_lens": [1]}] * 700))
    assert not are_packed([{"seq_lens": [1]}] * 300) and not are_packed([{"a": 1}]) and not are_packed([])


def test_a_row_without_its_entry_is_named():
    filled = [{"seq_lengths": [2, 1], "position_ids": [0, 1, 0]}] * 300
    for column, of_others in (("seq_lengths", "position_ids"), ("position_ids", "seq_lengths")):
        data = [{column: row[column]} for row in filled]
        for entry, message in (
            ([], "is empty; every row has at least one sequence"), (None, "is None; must be a list of whole numbers"),
            (7, "is 7; must be a list"), ([1.5], r"is \[1.5\]; must be a list"),
        ):
            with pytest.raises(ValueError, match=rf"{column}\[280\] " + message):
                rows_of([*data[:280], {column: entry}, *data[:3]])
        with pytest.raises(ValueError, match=rf"{column}\[280\] is None; must be a list"):
            rows_of([*data[:280], {of_others: [1]}, *data[:3]])
    with pytest.raises(ValueError, match=r"seq_lens\[1\]\[1\] is 0; must be at least 1"):
        rows_of([{"seq_lens": [2, 1]}, {"seq_lens": [2, 0]}])


# ms-swift.


class PackingDataset:
    def __init__(self, rows):
        numbers = itertools.count()
        self.packed_idx = [[next(numbers) for _ in row] for row in rows]
        flat = [length for row in rows for length in row]
        # Of two turns each.
        self.dataset = {"lengths": [[length - 1, 1] if length > 1 else length for length in flat]}

    def __len__(self):
        return len(self.packed_idx)

    def __getitem__(self, row):
        return {"row": row}


class Template:
    """Of samples of so many tokens, and images of such grids."""

    def encode(self, row):
        encoded = {"lengths": [row["tokens"] - 1, 1]}
        if row["grid"]:
            encoded |= {"image_grid_thw": torch.tensor(row["grid"]), "pixel_values": torch.zeros(3, 4)}
        return encoded


def encoders():
    class EncodePreprocessor:
        cache_format_version = "v2"

        def __init__(self, template):
            self.template = template

        def preprocess(self, row):
            return self.template.encode(row)

    class AddLengthPreprocessor(EncodePreprocessor):
        def preprocess(self, row):
            row["lengths"] = super().preprocess(row)["lengths"]
            return row

    class NextFit(PackingDataset):
        """By tokens alone."""

        def __init__(self, template, dataset, *, packing_length, packing_strategy="binpack"):
            self.dataset, self.packing_length, self.packing_strategy = dataset, packing_length, packing_strategy
            self.packed_idx, self.packed_length = [], []
            for sample, turns in enumerate(dataset["lengths"]):
                if not self.packed_idx or self.packed_length[-1] + sum(turns) > packing_length:
                    self.packed_idx.append([])
                    self.packed_length.append(0)
                self.packed_idx[-1].append(sample)
                self.packed_length[-1] += sum(turns)

    return EncodePreprocessor, AddLengthPreprocessor, NextFit


class Shard:
    """Of a rank that the test sets."""

    rank = 0

    def __init__(self, total_samples, batch_size, shuffle, drop_last, data_seed, tp_size=1):
        self.batch_size, self.shuffle, self.drop_last = batch_size, shuffle, drop_last
        self.base_seed, self.world_size = data_seed or 0, RANKS


class Skipping:
    def __init__(self, batch_sampler, skip_batches):
        self.batch_sampler, self.skip_batches = batch_sampler, skip_batches

    def __iter__(self):
        return itertools.islice(self.batch_sampler, self.skip_batches, None)


def collate(items):
    rows = [item["row"] for item in items]
    return {"rows": rows, "labels": torch.tensor(rows)}


@pytest.fixture
def swift(monkeypatch):
    class DataLoaderMixin:
        def get_train_dataloader(self, skip_batches=0):
            args = self.args
            sampler = module.BatchSamplerShard(
                len(self.train_dataset), batch_size=self._train_batch_size, shuffle=args.train_dataloader_shuffle,
                drop_last=args.dataloader_drop_last, data_seed=args.data_seed, tp_size=1)
            if skip_batches:
                sampler = Skipping(sampler, skip_batches)
            return DataLoader(self.train_dataset, batch_sampler=sampler, collate_fn=self.data_collator)

    contents = {"DataLoaderMixin": DataLoaderMixin, "BatchSamplerShard": Shard}
    encode, add_length, next_fit = encoders()
    of_utils = {"EncodePreprocessor": encode, "AddLengthPreprocessor": add_length}
    (*_, module) = modules(
        monkeypatch, swift={}, swift__trainers={}, swift__dataset={}, swift__dataset__utils=of_utils,
        swift__dataset__packing={"PackingDataset": next_fit}, swift__trainers__mixin=contents)
    ms_swift.install(cost=COST)
    return module


def encoded(count=200, seed=0):
    """A dataset as ms-swift encodes it, by column."""
    draw = numpy.random.default_rng(seed)
    preprocessor = sys.modules["swift.dataset.utils"].AddLengthPreprocessor(Template())
    rows = []
    for _ in range(count):
        images = int(draw.integers(1, 3)) if draw.random() < 0.4 else 0
        grid = [[1, int(draw.integers(2, 16)), int(draw.integers(2, 16))] for _ in range(images)]
        rows.append(preprocessor.preprocess({"tokens": int(draw.integers(2, WIDTH)), "grid": grid}))
    return {name: [row[name] for row in rows] for name in rows[0]}


def packed(dataset, **options):
    return sys.modules["swift.dataset.packing"].PackingDataset(Template(), dataset, packing_length=WIDTH, **options)


def patches_in(made):
    own = [sum(t * h * w for t, h, w in grid) for grid in made.dataset["grid"]]
    return numpy.array([sum(own[sample] for sample in row) for row in made.packed_idx])


def trainer_of(swift, data, of_device=1, **arguments):
    trainer = swift.DataLoaderMixin()
    trainer.train_dataset = data
    trainer.args = types.SimpleNamespace(**{
        "gradient_accumulation_steps": STEPS, "dataloader_drop_last": False, "train_dataloader_shuffle": True,
        "data_seed": 7, "group_by_length": False, **arguments})
    trainer.template = types.SimpleNamespace(sequence_parallel_size=1)
    trainer.data_collator, trainer._train_batch_size = collate, of_device
    trainer.model_accepts_loss_kwargs, trainer.compute_loss_func = True, None
    return trainer


def loaders_of(monkeypatch, trainers, skip_batches=0):
    loaders = []
    for rank, trainer in enumerate(trainers):
        monkeypatch.setattr(Shard, "rank", rank)
        loaders.append(trainer.get_train_dataloader(skip_batches=skip_batches))
    return loaders


def rows_in(loader):
    """Dummies are of no row."""
    return [batch["rows"] if (batch["labels"] != -100).any() else [] for batch in loader]


@pytest.mark.parametrize("count, of_device", [(60, 1), (60, 2), (1, 1), (53, 1), (53, 2), (3, 2), (5, 2), (13, 2)])
def test_ms_swift_deals_its_rows(swift, monkeypatch, count, of_device):
    ms_swift.install(cost=COST)
    rows = lengths_of(count)
    trainers = [trainer_of(swift, PackingDataset(rows), of_device) for _ in range(RANKS)]
    for epoch in range(2):
        loaders = loaders_of(monkeypatch, trainers)
        for loader in loaders:
            loader.batch_sampler.set_epoch(epoch)
        of_ranks = [rows_in(loader) for loader in loaders]
        assert [len(own) for own in of_ranks] == [-(-count // (STEPS * RANKS * of_device)) * STEPS] * RANKS
        assert all(len(batch) <= of_device for own in of_ranks for batch in own)
        if of_device == 1:
            assert_dealt(of_ranks, rows)
        assert sorted(row for own in of_ranks for batch in own for row in batch) == list(range(count))
    assert swift.BatchSamplerShard is Shard


def test_installed_again_each_stands_there_once(swift, nemo):
    for install, owner, name in (
        (ms_swift.install, swift.DataLoaderMixin, "get_train_dataloader"), (automodel.install, nemo.loader, "__init__"),
        (automodel.install, nemo.scheduler, "__init__"),
    ):
        stock = stock_of(getattr(owner, name))
        install()
        assert stock_of(getattr(owner, name)) is stock is not getattr(owner, name)


def test_ms_swift_goes_on_amid_an_epoch(swift, monkeypatch):
    rows = lengths_of()
    trainers = [trainer_of(swift, PackingDataset(rows)) for _ in range(RANKS)]
    loaders = loaders_of(monkeypatch, trainers)
    for loader in loaders:
        loader.batch_sampler.set_epoch(3)
    whole = [rows_in(loader) for loader in loaders]
    rest = [rows_in(loader) for loader in loaders_of(monkeypatch, trainers, skip_batches=5)]
    assert rest == [own[5:] for own in whole]


def test_ms_swift_keeps_its_arguments(swift, monkeypatch):
    data = PackingDataset(lengths_of(53))
    in_order = trainer_of(swift, data, train_dataloader_shuffle=False)
    first = [row for loader in loaders_of(monkeypatch, [in_order] * 2) for batch in rows_in(loader)[:STEPS] for row in batch]
    assert sorted(first) == list(range(RANKS * STEPS))
    dropping = trainer_of(swift, data, dataloader_drop_last=True)
    of_ranks = [rows_in(loader) for loader in loaders_of(monkeypatch, [dropping] * 2)]
    assert sum(len(batch) for own in of_ranks for batch in own) == 48 and all(map(all, of_ranks))
    seeds = [[rows_in(loaders_of(monkeypatch, [trainer_of(swift, data, data_seed=seed)])[0])] for seed in (1, 1, 2)]
    assert seeds[0] == seeds[1] != seeds[2]


def test_ms_swift_trainings_that_are_not_dealt_are_refused(swift, monkeypatch):
    data = PackingDataset(lengths_of(53))
    with pytest.raises(ValueError, match="train_dataset is a list, whose rows are not packed beforehand: set packing=True"):
        trainer_of(swift, [1, 2]).get_train_dataloader()
    with pytest.raises(ValueError, match="group_by_length is True"):
        trainer_of(swift, data, group_by_length=True).get_train_dataloader()
    trainer = trainer_of(swift, data)
    trainer.template.sequence_parallel_size = 2
    with pytest.raises(ValueError, match="sequence_parallel_size is 2; must be 1"):
        trainer.get_train_dataloader()
    trainer = trainer_of(swift, data)
    trainer.model_accepts_loss_kwargs = False
    with pytest.raises(ValueError, match="has fewer rows than micro-batches.*Set dataloader_drop_last=True"):
        trainer.get_train_dataloader()
    trainer = trainer_of(swift, PackingDataset(lengths_of(5)), dataloader_drop_last=True)
    total = "per_device_train_batch_size, times gradient_accumulation_steps and ranks, is 6"
    with pytest.raises(ValueError, match="lengths has 5 entries to plan, which make no global batch; " + total):
        trainer.get_train_dataloader()
    trainer = trainer_of(swift, data)
    trainer.data_collator = len
    with pytest.raises(ValueError, match="Set dataloader_drop_last=True"):
        trainer.get_train_dataloader()

    def unknown(self, skip_batches=0):
        return DataLoader(self.train_dataset)

    monkeypatch.setattr(swift.DataLoaderMixin, "get_train_dataloader", unknown)
    ms_swift.install()
    with pytest.raises(RuntimeError, match="DataLoaderMixin draws its batches elsewhere"):
        trainer_of(swift, data).get_train_dataloader()
    with pytest.raises(ValueError, match='effort is "zzz"'):
        ms_swift.install(effort="zzz")


def test_ms_swift_packs_within_a_limit_of_patches(swift):
    # Without one, the dataset has no patches, and rows come out as ms-swift makes them.
    stock = packed(encoded())
    assert "patches" not in stock.dataset and patches_in(stock).max() > 450
    ms_swift.install(cost=COST, limits={"patches": 450})
    ms_swift.install(cost=COST, limits={"patches": 450})
    made = packed(encoded())
    assert made.dataset["patches"] == [sum(t * h * w for t, h, w in grid) for grid in made.dataset["grid"]]
    assert sorted(sample for row in made.packed_idx for sample in row) == list(range(200))
    tokens = [sum(map(sum, (made.dataset["lengths"][sample] for sample in row))) for row in made.packed_idx]
    assert tokens == made.packed_length and max(tokens) <= WIDTH
    assert 0 < patches_in(made).max() <= 450
    assert len(made) < len(stock)
    # A sample that is longer than a row has one, as ms-swift gives it.
    data = encoded()
    data["lengths"][7] = [WIDTH, WIDTH]
    assert [7] in packed(data).packed_idx
    cached = sys.modules["swift.dataset.utils"].AddLengthPreprocessor(Template())
    assert cached.cache_format_version == "v2_patches" and cached.kept_columns == ["patches"]


def test_ms_swift_deals_rows_by_what_their_images_cost(swift, monkeypatch):
    ms_swift.install(cost=CostModel(1.0, 1 / 64, loads={"patches": 0.5}))
    data = packed(encoded())
    assert data.packed_idx == packed({**data.dataset, "patches": [0] * 200}).packed_idx
    trainers = [trainer_of(swift, data) for _ in range(RANKS)]
    lengths = [[sum(data.dataset["lengths"][sample]) for sample in row] for row in data.packed_idx]
    of_ranks = [rows_in(loader) for loader in loaders_of(monkeypatch, trainers)]
    assert_dealt(of_ranks, lengths, beside=0.5 * patches_in(data))
    with pytest.raises(AssertionError):
        assert_dealt(of_ranks, lengths)

    def waited(of_ranks):
        """By ranks that wait for each other after the encoder too."""
        costs = numpy.array([COST.of_sequences(row).sum() for row in lengths]), 5.0 * patches_in(data)
        slots = list(zip(*of_ranks))
        return sum(max(one[rows].sum() for rows in slot) for slot in slots for one in costs)

    dealt = {}
    for separate in (False, True):
        ms_swift.install(cost=CostModel(1.0, 1 / 64, loads=[LoadCost("patches", 5.0, separate=separate)]))
        dealt[separate] = waited([rows_in(loader) for loader in loaders_of(monkeypatch, trainers)])
    assert dealt[True] < dealt[False]


def test_ms_swift_refuses_patches_that_are_not_known(swift):
    limited = {"limits": {"patches": 450}}
    before = encoded()
    ms_swift.install(**limited)
    with pytest.raises(ValueError, match="the dataset has no column patches: it was encoded before ms_swift.install"):
        packed(before)
    made = encoded()
    with pytest.raises(ValueError, match='packing_strategy is "sequential"; must be "binpack"'):
        packed(made, packing_strategy="sequential")
    largest = int(numpy.argmax(made["patches"]))
    with pytest.raises(ValueError, match=f"limits has 100 patches; sample {largest} has {max(made['patches'])}: raise it"):
        ms_swift.install(limits={"patches": 100})
        packed(made)
    preprocessor = sys.modules["swift.dataset.utils"].AddLengthPreprocessor(Template())
    preprocessor.template.encode = lambda row: {"lengths": [3], "pixel_values": torch.zeros(1, 3, 4, 4)}
    made["patches"][5] = preprocessor.preprocess({})["patches"]
    with pytest.raises(ValueError, match="sample 5 has pixels without image_grid_thw or video_grid_thw"):
        packed(made)
    # Of pairs, both are encoded.
    grid = torch.tensor([[1, 2, 3]])
    preprocessor.template.encode = lambda row: {
        "lengths": [3, 4], "chosen_pixel_values": 1, "chosen_image_grid_thw": grid, "rejected_pixel_values_videos": 1,
        "rejected_video_grid_thw": [[2, 2, 2]], "pixel_values": None}
    assert preprocessor.preprocess({})["patches"] == 6 + 8
    for options, message in (
        ({"limits": {"frames": 3}}, r'limits\[0\].load is "frames"'),
        ({"limits": {"patches": 0}}, "max_per_microbatch is 0"),
        ({"cost": CostModel(1.0, loads={"frames": 3})}, r'cost\.loads\[0\]\.load\) is "frames"'),
        ({"cost": CostModel(1.0, loads=[LoadCost("patches", 3, dealt=True)])}, r"loads\[0\].dealt"),
    ):
        with pytest.raises(ValueError, match=message):
            ms_swift.install(**options)


# NeMo AutoModel.


class Packed:
    """A dataset of packed rows, as AutoModel's packers make them."""

    def __init__(self, rows, column="seq_lens_padded"):
        self.rows, self.column_names = rows, ["input_ids", column]
        self.column = column

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, row):
        lengths = self.rows[row]
        if self.column == "position_ids":
            lengths = [place for length in lengths[:-1] for place in range(length)] + [0] * lengths[-1]
        return {"row": row, self.column: lengths}


@pytest.fixture
def nemo(monkeypatch):
    class ParallelAwareDataloader(DataLoader):
        def __init__(self, dataset, *, dp_rank, dp_world_size, batch_size=1, collate_fn=None, batch_sampler=None, seed=42,
                     shuffle=None, group_by_length=False, pp_enabled=False, drop_last=False):
            super().__init__(dataset, batch_sampler=batch_sampler, collate_fn=collate_fn)

    class StepScheduler:
        def __init__(self, global_batch_size, local_batch_size, dp_size, dataloader, num_epochs=None):
            self.grad_acc_steps = global_batch_size // (local_batch_size * dp_size)
            self.epoch_len = -(-len(dataloader) // self.grad_acc_steps)

    names = {"nemo_automodel": {}, "nemo_automodel__components": {}, "nemo_automodel__components__datasets": {},
             "nemo_automodel__components__training": {},
             "nemo_automodel__components__datasets__loader": {"ParallelAwareDataloader": ParallelAwareDataloader},
             "nemo_automodel__components__training__step_scheduler": {"StepScheduler": StepScheduler}}
    modules(monkeypatch, **names)
    automodel.install(cost=COST)
    automodel.install(cost=COST)
    return types.SimpleNamespace(loader=ParallelAwareDataloader, scheduler=StepScheduler)


def loaded(nemo, data, of_device=1, steps=STEPS, **options):
    """A loader of each rank, of which its scheduler knows."""
    loaders = [
        nemo.loader(data, dp_rank=rank, dp_world_size=RANKS, batch_size=of_device, collate_fn=collate, **options)
        for rank in range(RANKS)
    ]
    schedulers = [nemo.scheduler(of_device * RANKS * steps, of_device, dp_size=RANKS, dataloader=one) for one in loaders]
    return loaders, schedulers


@pytest.mark.parametrize("column", ["seq_lens_padded", "seq_lens", "position_ids"])
@pytest.mark.parametrize("count", [60, 53, 52])
def test_automodel_deals_its_rows(nemo, column, count):
    rows = [row for row in lengths_of(80) if len(row) > 1][:count]
    loaders, schedulers = loaded(nemo, Packed(rows, column))
    if column == "position_ids":
        # Zeros at the end are padding.
        rows = [row[:-1] for row in rows]
    for _ in range(2):
        of_ranks = [rows_in(loader) for loader in loaders]
        assert [len(own) for own in of_ranks] == [-(-count // (STEPS * RANKS)) * STEPS] * RANKS
        assert schedulers[0].epoch_len == len(of_ranks[0]) / STEPS
        assert_dealt(of_ranks, rows)
    assert loaders[0].batch_sampler.state_dict()["epoch"] == 2


@pytest.mark.parametrize("count", [1, 3, 5, 13])
def test_automodel_deals_rows_that_are_fewer_than_micro_batches(nemo, count):
    rows = [row for row in lengths_of(80) if len(row) > 1][:count]
    loaders, schedulers = loaded(nemo, Packed(rows), of_device=2)
    of_ranks = [rows_in(loader) for loader in loaders]
    assert sorted(row for own in of_ranks for batch in own for row in batch) == list(range(count))
    steps = -(-count // (2 * STEPS * RANKS))
    assert [len(own) for own in of_ranks] == [steps * STEPS] * RANKS and schedulers[0].epoch_len == steps
    # An epoch whose last rows are dropped has no others.
    if count < 2 * RANKS:
        message = rf"dataset has {count} packed rows, and a step takes 4 \(local_batch_size 2 \* 2 ranks \* 1\): drop_last"
        with pytest.raises(ValueError, match=message):
            loaded(nemo, Packed(rows), of_device=2, pp_enabled=True)


def test_automodel_keeps_its_arguments(nemo):
    data = Packed(lengths_of(53))
    loaders, _ = loaded(nemo, data, of_device=2, shuffle=False)
    of_ranks = [rows_in(loader) for loader in loaders]
    assert sorted(row for own in of_ranks for batch in own[:STEPS] for row in batch) == list(range(2 * RANKS * STEPS))
    assert max(len(batch) for own in of_ranks for batch in own) == 2
    for name in ("pp_enabled", "drop_last"):
        loaders, schedulers = loaded(nemo, data, **{name: True})
        assert schedulers[0].epoch_len == 53 // (RANKS * STEPS)
        assert sum(len(batch) for loader in loaders for batch in rows_in(loader)) == 48
    # Of validation, which no scheduler has.
    alone = [nemo.loader(data, dp_rank=rank, dp_world_size=RANKS, collate_fn=collate) for rank in range(RANKS)]
    assert sorted(row for one in alone for batch in rows_in(one) for row in batch) == list(range(53))


def test_automodel_trainings_that_are_not_dealt_are_refused(nemo):
    stream = torch.utils.data.ChainDataset([])
    single = Packed([[5]] * 12)
    of_its_own = {"batch_sampler": [[0], [1]]}
    for data, options in ((stream, {}), ([{"row": 1}] * 12, {}), (single, {}), (Packed(lengths_of()), of_its_own)):
        with pytest.raises(ValueError, match="are not packed beforehand, or have a sampler of their own: set packed_seq"):
            loaded(nemo, data, **options)
    with pytest.raises(ValueError, match="group_by_length is True"):
        loaded(nemo, Packed(lengths_of()), group_by_length=True)
    with pytest.raises(ValueError, match='synchronization is "zzz"'):
        automodel.install(synchronization="zzz")
