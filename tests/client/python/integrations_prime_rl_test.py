"""batchplan.integrations.prime_rl: in a prime-rl of small samples and micro-batches of the names that get it."""

import dataclasses
import sys
import types

import batchplan
import numpy
import pytest
from batchplan.integrations import prime_rl
from lengths import assert_each_once, lockstep, long_tailed

SEQ_LEN = 4096


@dataclasses.dataclass
class Tensor:
    """As prime-rl sends them: a dtype, a shape, and bytes."""

    shape: list
    dtype: str = "float32"


def images(patches, width=2):
    return {"pixel_values": Tensor([patches, width]), "image_grid_thw": Tensor([1, 3], "int64")}


@dataclasses.dataclass
class MicroBatch:
    """Of samples by their numbers; one sample's is made of one."""

    samples: list
    input_ids: list
    mm_kwargs: object = None
    routed_experts: object = None
    dummies: int = 0

    @property
    def patches(self):
        return self.mm_kwargs["pixel_values"].shape[0] if self.mm_kwargs else 0


def verl_like(lengths):
    return 24576 * sum(lengths) + sum(length**2 for length in lengths)


def prepare_sample(rollout, seq_len):
    number, length, *more = rollout
    return MicroBatch([number], [0] * min(length, seq_len), **dict(more))


def make_dummy_batch(source):
    return dataclasses.replace(source, samples=[], dummies=1)


def can_share(one, other):
    if (one.routed_experts is None) != (other.routed_experts is None):
        return False
    if one.mm_kwargs is None or other.mm_kwargs is None:
        return True
    rows = [{name: (at.dtype, at.shape[1:]) for name, at in of.mm_kwargs.items()} for of in (one, other)]
    return rows[0] == rows[1] and all(at.shape for at in one.mm_kwargs.values())


def joined(one, other):
    kwargs = one.mm_kwargs or other.mm_kwargs
    if kwargs and one.patches and other.patches:
        kwargs = images(one.patches + other.patches, kwargs["pixel_values"].shape[1])
    return MicroBatch(one.samples + other.samples, one.input_ids + other.input_ids, kwargs, one.routed_experts,
                      one.dummies + other.dummies)


def packed_samples_into_micro_bs(samples, max_seq_len, num_train_workers, bin_cost):
    """First fit, longest first."""
    samples.sort(key=lambda sample: -len(sample.input_ids))
    bins = []
    for sample in samples:
        for place, one in enumerate(bins):
            if len(one.input_ids) + len(sample.input_ids) <= max_seq_len and can_share(one, sample):
                bins[place] = joined(one, sample)
                break
        else:
            bins.append(dataclasses.replace(sample))
    return bins


def pad_micro_batch(micro_batch, pad_to_multiple_of):
    micro_batch.input_ids = micro_batch.input_ids + [1] * (-len(micro_batch.input_ids) % pad_to_multiple_of)
    return micro_batch


def prepare_batch(rollouts, seq_len, num_train_workers, bin_cost, pad_to_multiple_of=1):
    """Deals bins, and says that it did."""
    samples = [prepare_sample(rollout, seq_len) for rollout in rollouts]
    bins = packed_samples_into_micro_bs(samples, seq_len, num_train_workers, bin_cost)
    return ["prime-rl's", *(bins[rank::num_train_workers] for rank in range(num_train_workers))]


class CatDataset:
    """Packs samples by next fit into rows of so many numbers, of which each is its sample's."""

    def __init__(self, dataset, seq_len):
        self.dataset, self.seq_len, self.pending_sample = dataset, seq_len, None

    def state_dict(self):
        return {"dataset": self.dataset.state_dict(), "pending_sample": self.pending_sample}

    def load_state_dict(self, state_dict):
        self.dataset.load_state_dict(state_dict["dataset"])
        self.pending_sample = state_dict.get("pending_sample")

    def __iter__(self):
        row = []
        for sample in self.dataset:
            if row and len(row) + len(sample["input_ids"]) > self.seq_len:
                yield row
                row = []
            row = (row + sample["input_ids"])[: self.seq_len]
        if row:
            yield row


class Stream:
    """A rank's, which goes on where it stood."""

    def __init__(self, lengths, images=None):
        self.lengths, self.images, self.step = lengths, images or {}, 0

    def state_dict(self):
        return {"step": self.step}

    def load_state_dict(self, state_dict):
        self.step = state_dict["step"]

    def __iter__(self):
        while self.step < len(self.lengths):
            self.step += 1
            yield self.sample(self.step - 1)

    def sample(self, number):
        return {"input_ids": [number] * self.lengths[number], "mm_kwargs": self.images.get(number)}


def samples_of(rows):
    return [list(dict.fromkeys(row)) for row in rows]


@pytest.fixture
def trainer(monkeypatch):
    """The modules of prime-rl that install() knows, and the orchestrator's, which has the function by name."""
    def module(name, **members):
        made = types.ModuleType(name)
        vars(made).update(members)
        monkeypatch.setitem(sys.modules, name, made)
        return made

    for name in ("", ".trainer", ".trainer.sft", ".entrypoints", ".orchestrator"):
        module(f"prime_rl{name}")
    module(
        "prime_rl.trainer.batch", prepare_batch=prepare_batch, prepare_sample=prepare_sample,
        packed_samples_into_micro_bs=packed_samples_into_micro_bs, pad_micro_batch=pad_micro_batch,
        _make_dummy_batch=make_dummy_batch)
    module("prime_rl.entrypoints.rl", rl_local=lambda config: "local", rl_slurm=lambda config: "slurm")
    rows = type("CatDataset", (CatDataset,), {})
    module("prime_rl.trainer.sft.data", CatDataset=rows)
    made = module("prime_rl.orchestrator.packing", prepare_batch=prepare_batch)
    made.rows = rows
    return made


def divided(trainer, lengths, workers=8, seq_len=SEQ_LEN, **more):
    return trainer.prepare_batch(
        rollouts=list(enumerate(lengths)), seq_len=seq_len, num_train_workers=workers, bin_cost=verl_like, **more)


@pytest.mark.parametrize("seed", range(3))
def test_ranks_and_micro_batches_are_one_plan(trainer, seed):
    prime_rl.install()
    prime_rl.install()
    lengths = long_tailed(256, seed)
    ranks = divided(trainer, lengths)
    assert_each_once([one.samples for own in ranks for one in own], 256)
    assert len(ranks) == 8 and len({len(own) for own in ranks}) == 1
    assert max(len(one.input_ids) for own in ranks for one in own) <= SEQ_LEN
    slots = [[one.samples for one in slot] for slot in zip(*ranks)]
    even = sum(lockstep(lengths, [[part]]) for slot in slots for part in slot) / 8
    assert lockstep(lengths, slots) < 1.05 * even


def test_samples_are_cut_and_micro_batches_padded_as_prime_rl_does(trainer):
    prime_rl.install()
    ranks = divided(trainer, [9, 3, 2, 1], workers=2, seq_len=5, pad_to_multiple_of=4)
    assert_each_once([one.samples for own in ranks for one in own], 4)
    assert sorted(len(one.input_ids) for own in ranks for one in own) in ([4, 8], [4, 4, 4, 8])


def assert_planned(ranks, rollouts, seq_len=SEQ_LEN):
    """Each sample once, and in each slot images on all ranks or on none. Returns the slots."""
    assert_each_once([one.samples for own in ranks for one in own], len(rollouts))
    assert len({len(own) for own in ranks}) == 1
    assert max(len(one.input_ids) for own in ranks for one in own) <= seq_len
    slots = list(zip(*ranks))
    assert all(len({one.mm_kwargs is None for one in slot}) == 1 for slot in slots)
    return slots


def multimodal(count=256, seed=0, part=0.4):
    """Samples of which some have images, of which tokens are a quarter of the patches."""
    random = numpy.random.default_rng(seed)
    rollouts = []
    for number, length in enumerate(long_tailed(count, seed, 2048)):
        patches = 256 * int(random.integers(1, 17)) if random.random() < part else 0
        more = [("mm_kwargs", images(patches))] if patches else []
        rollouts.append((number, length + patches // 4, *more))
    return rollouts


def step_time(slots, patch_cost):
    """Where ranks wait for each other after the encoder and after the rest."""
    return sum(
        max(verl_like([len(one.input_ids)]) for one in slot) + 24576 * patch_cost * max(one.patches for one in slot)
        for slot in slots
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("part", [0.02, 0.4, 1.0])
def test_ranks_run_encoders_at_the_same_time(trainer, seed, part):
    rollouts = multimodal(seed=seed, part=part)
    prime_rl.install()
    slots = assert_planned(trainer.prepare_batch(rollouts, SEQ_LEN, 8, verl_like), rollouts)
    # As many dummies as images lack, and text beside them.
    assert sum(one.dummies for slot in slots for one in slot) == max(8 - sum(len(one) > 2 for one in rollouts), 0)
    prime_rl.install(patch_cost=0.5)
    with_encoder = assert_planned(trainer.prepare_batch(rollouts, SEQ_LEN, 8, verl_like), rollouts)
    assert step_time(with_encoder, 0.5) <= 1.01 * step_time(slots, 0.5)
    assert part == 0.02 or step_time(with_encoder, 0.5) < 0.98 * step_time(slots, 0.5)


def test_micro_batches_have_no_more_patches_than_allowed(trainer):
    rollouts = multimodal()

    def most(**options):
        prime_rl.install(**options)
        slots = assert_planned(trainer.prepare_batch(rollouts, SEQ_LEN, 8, verl_like), rollouts)
        return max(one.patches for slot in slots for one in slot)

    assert most() > 6000 >= most(max_patches=6000)
    # One that has more alone is alone, as far as images go.
    rollouts[0] = (0, 900, ("mm_kwargs", images(9000)))
    assert most(max_patches=6000) == 9000


@pytest.mark.parametrize("rollouts, dummies", [
    ([(0, 3), (1, 3, ("mm_kwargs", images(4))), (2, 3)], 1),
    ([(0, 5), (1, 5, ("mm_kwargs", images(4)))], 2),
    ([(0, 3), (1, 3, ("routed_experts", "some")), (2, 3)], 1),
    ([(0, 3), (1, 3, ("routed_experts", "some")), (2, 3), (3, 2, ("routed_experts", "some"))], 0),
    ([(0, 3)], 1),
    ([(0, 3), (1, 3), (2, 3)], 1),
    # Of which no two may share a micro-batch.
    ([(place, 1, ("mm_kwargs", images(4, width=place))) for place in range(4)], 4),
    # More slots for images that fit in fewer rows than there are ranks.
    ([(place, 5, ("mm_kwargs", images(4))) for place in range(3)], 1),
])
def test_dummies_stand_where_samples_are_too_few(trainer, rollouts, dummies):
    prime_rl.install()
    slots = assert_planned(trainer.prepare_batch(rollouts, 5, 2, verl_like), rollouts, 5)
    assert sum(one.dummies for slot in slots for one in slot) == dummies


@pytest.mark.parametrize("rollouts, why", [
    ([], "has no samples"),
    ([(place, 1, ("mm_kwargs", {"pixel_values": Tensor([])})) for place in range(2)],
     "has images that no micro-batch can share"),
])
def test_what_no_plan_keeps_is_prime_rls_and_said(trainer, caplog, rollouts, why):
    prime_rl.install()
    for _ in range(2):
        assert trainer.prepare_batch(rollouts, 5, 2, verl_like)[0] == "prime-rl's"
    assert caplog.text.count(why) == 1


def test_all_samples_may_have_routed_experts(trainer):
    prime_rl.install()
    rollouts = [(number, 3, ("routed_experts", "some")) for number in range(4)]
    ranks = trainer.prepare_batch(rollouts, 6, 2, verl_like)
    assert [len(one.samples) for own in ranks for one in own] == [2, 2]


def test_costs_are_prime_rls_unless_given(trainer):
    assert prime_rl.cost_of(verl_like) == batchplan.CostModel(24576.0, 1.0)
    assert prime_rl.cost_of(sum) == batchplan.CostModel(1.0, 0.0)
    lengths = long_tailed(128, 3)

    def longest(**options):
        prime_rl.install(synchronization="accumulated", **options)
        ranks = divided(trainer, lengths)
        return max(sum(lengths[place] ** 2 for one in own for place in one.samples) for own in ranks)

    assert longest(cost=batchplan.CostModel(0.0, 1.0)) < longest(cost=batchplan.CostModel(1.0))


def test_the_process_that_starts_the_orchestrator_is_told(trainer):
    prime_rl.install()
    for name in ("rl_local", "rl_slurm"):
        with pytest.raises(batchplan.FailedPrecondition, match="call it in main.. of prime_rl/entrypoints/orch"):
            getattr(sys.modules["prime_rl.entrypoints.rl"], name)("config")


def test_an_orchestrator_without_launcher_and_sft_does(trainer, monkeypatch):
    monkeypatch.setitem(sys.modules, "prime_rl.entrypoints.rl", None)
    monkeypatch.setitem(sys.modules, "prime_rl.trainer.sft.data", None)
    prime_rl.install()
    assert divided(trainer, [3] * 8)


ALIKE, APART = {20: images(64), 21: images(64)}, {20: images(64), 21: images(64, width=3)}


@pytest.mark.parametrize("pixels", [{}, ALIKE, APART])
def test_rows_are_full_and_hold_each_sample_once(trainer, pixels):
    lengths = long_tailed(300, 1)
    stock = list(CatDataset(Stream(lengths), SEQ_LEN))
    prime_rl.install()
    prime_rl.install()
    rows = list(trainer.rows(Stream(lengths, pixels), SEQ_LEN))
    assert_each_once(samples_of(rows), 300)
    assert max(map(len, rows)) <= SEQ_LEN and sum(map(len, rows)) == sum(lengths)
    assert len(rows) < len(stock)
    # The stream's order, where images can't share rows.
    assert (samples_of(rows)[0] == samples_of(stock)[0]) == (pixels is APART)


def test_rows_have_no_more_patches_than_allowed_and_are_alike_in_them(trainer):
    random = numpy.random.default_rng(0)
    lengths = long_tailed(300, 1)
    pixels = {number: images(256 * int(random.integers(1, 17))) for number in range(0, 300, 3)}

    def patches(**options):
        prime_rl.install(**options)
        rows = samples_of(trainer.rows(Stream(lengths, pixels), SEQ_LEN))
        assert_each_once(rows, 300)
        return [sum(pixels[one]["pixel_values"].shape[0] for one in row if one in pixels) for row in rows]

    without, limited, priced = patches(), patches(max_patches=8192), patches(patch_cost=2)
    assert max(without) > 8192 >= max(limited)
    assert numpy.std(priced[:8]) < 0.8 * numpy.std(without[:8])


def test_rows_of_ranks_that_run_at_the_same_time_are_alike(trainer):
    streams = [long_tailed(400, seed) for seed in range(8)]

    def per_token():
        ranks = [list(trainer.rows(Stream(lengths), SEQ_LEN)) for lengths in streams]
        slots = [[(len(row), lengths) for row, lengths in zip(slot, streams)] for slot in zip(*ranks)]
        costs = []
        for slot, rows in zip(slots, zip(*ranks)):
            of_slot = []
            for row, lengths in zip(rows, streams):
                own = [row.count(one) for one in dict.fromkeys(row)]
                own[-1] += SEQ_LEN - len(row)
                of_slot.append(verl_like(own))
            costs.append(max(of_slot))
        return sum(costs) / sum(len(row) for slot in zip(*ranks) for row in slot)

    before = per_token()
    prime_rl.install()
    assert per_token() < 0.9 * before


@pytest.mark.parametrize("pixels", [{}, ALIKE, APART])
@pytest.mark.parametrize("rows_after", [3, 5])
def test_a_checkpoint_resumes_amid_a_window(trainer, pixels, rows_after):
    lengths = long_tailed(100, 2)
    prime_rl.install(rows=3)
    whole = list(trainer.rows(Stream(lengths, pixels), SEQ_LEN))
    for trained in range(len(whole)):
        dataset = trainer.rows(Stream(lengths, pixels), SEQ_LEN)
        rows = iter(dataset)
        before = [next(rows) for _ in range(trained)]
        resumed = trainer.rows(Stream(lengths, pixels), SEQ_LEN)
        resumed.load_state_dict(dataset.state_dict())
        again = trainer.rows(Stream(lengths, pixels), SEQ_LEN)
        again.load_state_dict(resumed.state_dict())
        prime_rl.install(rows=rows_after)
        after = list(again)
        prime_rl.install(rows=3)
        # The same samples also where windows are of another size now.
        assert_each_once(samples_of(before + after), 100)
        assert rows_after != 3 or before + after == whole


def test_a_checkpoint_of_prime_rls_own_resumes(trainer):
    stream = Stream([9, 8, 7, 6, 5])
    stream.step = 3
    prime_rl.install()
    dataset = trainer.rows(Stream([9, 8, 7, 6, 5]), 16)
    dataset.load_state_dict({"dataset": stream.state_dict(), "pending_sample": stream.sample(2)})
    assert_each_once([[number - 2 for number in row] for row in samples_of(list(dataset))], 3)


def test_ends_of_streams(trainer):
    prime_rl.install(rows=2)
    assert list(trainer.rows(Stream([]), 8)) == []
    assert list(trainer.rows(Stream([3]), 8)) == [[0, 0, 0]]
    # One that is too long is cut, as by prime-rl.
    assert sorted(map(len, trainer.rows(Stream([9, 3, 9]), 8))) == [3, 8, 8]
    with pytest.raises(ValueError, match="rows is 0; must be at least 1"):
        prime_rl.install(rows=0)


def test_what_is_wrong_is_told_at_installation(trainer):
    for wrong in ({"cost": 3.0}, {"effort": "much"}, {"synchronization": "never"}, {"patch_cost": -1},
                  {"patch_cost": "much"}, {"max_patches": 0}, {"max_patches": 1.5}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            prime_rl.install(**wrong)
    assert trainer.prepare_batch is prepare_batch


def test_without_the_trainer_there_is_nothing_to_install():
    with pytest.raises(ImportError, match="prime_rl"):
        prime_rl.install()
