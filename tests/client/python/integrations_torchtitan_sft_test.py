"""batchplan.integrations.torchtitan: the rows of SFT, in datasets of stand-ins for those of 0.3.0 and of main."""

import copy
import dataclasses
import itertools
import sys
import types

import pytest
from batchplan.integrations import torchtitan
from lengths import long_tailed

SEQ_LEN = 4096


class ChatDataset:
    """0.3.0's: next fit. A sample is its number and length; its tokens are its number, its labels that negated."""

    def __init__(self, lengths, seq_len=SEQ_LEN, infinite=False):
        self._data, self.seq_len, self.infinite = list(enumerate(lengths, 1)), seq_len, infinite
        self._sample_idx = self._epoch = 0
        self._inputs_buffer, self._labels_buffer = [], []
        self._pending_input_ids, self._pending_label_ids = [], []

    def _get_data_iter(self):
        return iter(self._data[self._sample_idx :])

    def _tokenize_sample(self, sample):
        number, length = sample
        return ([number] * length, [-number] * length) if length <= self.seq_len else None

    def _flush_buffers(self):
        row = self._inputs_buffer, self._labels_buffer
        self._inputs_buffer, self._labels_buffer = [], []
        for part in row:
            part.extend([0] * (self.seq_len - len(part)))
        return row

    def _add(self, pair):
        self._inputs_buffer.extend(pair[0])
        self._labels_buffer.extend(pair[1])
        self._sample_idx += 1

    def __iter__(self):
        if self._pending_input_ids:
            self._add((self._pending_input_ids, self._pending_label_ids))
        while True:
            for sample in self._get_data_iter():
                pair = self._tokenize_sample(sample)
                if pair is None:
                    self._sample_idx += 1
                    continue
                if self._inputs_buffer and len(self._inputs_buffer) + len(pair[0]) > self.seq_len:
                    self._pending_input_ids, self._pending_label_ids = pair
                    yield self._flush_buffers()
                self._pending_input_ids, self._pending_label_ids = [], []
                self._add(pair)
            if self._inputs_buffer:
                yield self._flush_buffers()
            if not self.infinite:
                break
            self.reloop()

    def reloop(self):
        self._sample_idx = 0
        self._epoch += 1

    def state_dict(self):
        return {name: copy.copy(vars(self)[name]) for name in (
            "_sample_idx", "_epoch", "_inputs_buffer", "_labels_buffer", "_pending_input_ids", "_pending_label_ids")}

    def load_state_dict(self, state_dict):
        vars(self).update(copy.deepcopy(state_dict))


class DatasetIterator:
    def __init__(self, parents=()):
        self.parents = parents

    def __iter__(self):
        return self


class Numbered(DatasetIterator):
    """The items that a function has at 0, 1 and so on, until it has no more."""

    def __init__(self, item):
        super().__init__()
        self.item, self.next = item, 0

    def __next__(self):
        self.next += 1
        item = self.item(self.next - 1)
        if item is None:
            raise StopIteration
        return item

    def get_state(self):
        return {"next": self.next}

    def set_state(self, state):
        self.next = state["next"]


class IterDataset:
    def __init__(self, parents=()):
        self.parents = parents

    def filter(self, keeps):
        return Kept(self, keeps)


class Items(IterDataset):
    def __init__(self, item):
        super().__init__()
        self.item = item

    def __iter__(self):
        return Numbered(self.item)


class Kept(IterDataset):
    def __init__(self, parent, keeps):
        super().__init__(parent)
        self.keeps = keeps

    def __iter__(self):
        return KeptIterator(iter(self.parents), self.keeps)


class KeptIterator(DatasetIterator):
    def __init__(self, parent, keeps):
        super().__init__(parent)
        self.keeps, self.get_state, self.set_state = keeps, parent.get_state, parent.set_state

    def __next__(self):
        return next(item for item in iter(self.parents.__next__, None) if self.keeps(item))


class MapDataset:
    def __init__(self, item):
        self.item = item

    def filter(self, keeps):
        return MapDataset(lambda place: item if (item := self.item(place)) is None or keeps(item) else ())

    @classmethod
    def source(cls, items):
        return cls(lambda place: items[place] if place < len(items) else None)

    def to_iter_dataset(self, read_options):
        assert read_options in ("as given", {"num_threads": 0, "prefetch_buffer_size": 0})
        return Items(self.item).filter(bool)


class Sequence:
    """A TextSequence, of one sample or of a row."""

    def __init__(self, input_ids, labels):
        self.input_ids, self.labels = input_ids, labels


@dataclasses.dataclass(frozen=True)
class Samples:
    """A dataset's configuration."""

    lengths: list
    kind: type = MapDataset

    def build(self, *, context, dataset_iteration_policy):
        def item(place):
            if place >= len(self.lengths) and not dataset_iteration_policy.repeat:
                return None
            number = place % len(self.lengths)
            return Sequence([number + 1] * self.lengths[number], [-number - 1] * self.lengths[number])

        return self.kind(item)


@dataclasses.dataclass(frozen=True)
class FirstFitPackingConfig:
    """main's, with one bin."""

    dataset: object
    num_packing_bins: int = 8

    def build(self, *, context, dataset_iteration_policy):
        samples = self.dataset.build(context=context, dataset_iteration_policy=dataset_iteration_policy)
        samples = samples.filter(lambda sample: len(sample.input_ids) <= context.max_context_length)
        if isinstance(samples, MapDataset):
            samples = samples.to_iter_dataset(read_options=context.read_options)

        def rows():
            row = Sequence([], [])
            for sample in samples:
                if len(row.input_ids) + len(sample.input_ids) > context.num_tokens_per_batch:
                    yield full(row)
                    row = Sequence([], [])
                row = Sequence(row.input_ids + sample.input_ids, row.labels + sample.labels)
            yield full(row)

        def full(row):
            padding = [0] * (context.num_tokens_per_batch - len(row.input_ids))
            return Sequence(row.input_ids + padding, row.labels + padding)

        made = rows()
        return Items(lambda place: next(made, None))


@dataclasses.dataclass(frozen=True)
class Policy:
    repeat: bool
    shuffle: bool = True


class Chat:
    """Rows of ChatDataset, and its states."""

    def __init__(self, module, lengths, infinite=False):
        self.dataset = module.ChatDataset(lengths, infinite=infinite)
        self.rows = iter(self.dataset)
        self.state_dict, self.load_state_dict = self.dataset.state_dict, self.dataset.load_state_dict

    def __iter__(self):
        return self.rows

    def attended(self, lengths):
        return [*lengths, SEQ_LEN - sum(lengths)]


class Packed:
    """Rows of FirstFitPackingConfig."""

    kind = MapDataset

    def __init__(self, module, lengths, infinite=False):
        context = types.SimpleNamespace(
            max_context_length=SEQ_LEN, num_tokens_per_batch=SEQ_LEN, read_options="as given")
        packer = module.FirstFitPackingConfig(Samples(lengths, self.kind))
        self.iterator = iter(packer.build(context=context, dataset_iteration_policy=Policy(infinite)))
        self.state_dict, self.load_state_dict = self.iterator.get_state, self.iterator.set_state

    def __iter__(self):
        return ((row.input_ids, row.labels) for row in self.iterator)

    def attended(self, lengths):
        return [*lengths, *[1] * (SEQ_LEN - sum(lengths))]


class PackedStream(Packed):
    kind = Items


@pytest.fixture
def sft(monkeypatch):
    """The modules of torchtitan and grain that install_sft() knows, of both versions at once."""
    for name in ("torchtitan", "torchtitan.hf_datasets", "torchtitan.components", "torchtitan.components.data",
                 "grain"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))

    def module(name, **members):
        made = types.ModuleType(name)
        vars(made).update(members)
        monkeypatch.setitem(sys.modules, name, made)

    chat = type("ChatDataset", (ChatDataset,), {})
    packer = type("FirstFitPackingConfig", (FirstFitPackingConfig,), {})
    module("torchtitan.hf_datasets.text_datasets", ChatDataset=chat)
    module("torchtitan.components.data.packing", FirstFitPackingConfig=packer)
    module("grain.python", IterDataset=IterDataset, DatasetIterator=DatasetIterator, MapDataset=MapDataset,
           ReadOptions=dict)
    return types.SimpleNamespace(ChatDataset=chat, FirstFitPackingConfig=packer)


def numbers_of(rows):
    return [[number for number in dict.fromkeys(inputs) if number] for inputs, _ in rows]


every_kind = pytest.mark.parametrize("kind", [Chat, Packed, PackedStream])


@every_kind
def test_rows_of_sft_are_full_and_hold_each_sample_once(sft, kind):
    lengths = [SEQ_LEN + 1, *long_tailed(300, 1), SEQ_LEN + 5]
    stock = list(kind(sft, lengths))
    torchtitan.install_sft()
    torchtitan.install_sft()
    rows = list(kind(sft, lengths))
    assert sorted(itertools.chain(*numbers_of(rows))) == list(range(2, 302))
    for inputs, labels in rows:
        assert len(inputs) == SEQ_LEN and labels == [-number for number in inputs]
        # As they came, and nothing of a sample elsewhere.
        assert [number for number in inputs if number] == sorted(number for number in inputs if number)
    assert sum(number > 0 for inputs, _ in rows for number in inputs) == sum(lengths[1:-1])
    assert len(rows) < len(stock)


@every_kind
def test_rows_of_sft_that_ranks_run_at_the_same_time_are_alike(sft, kind):
    def per_token():
        ranks = [kind(sft, long_tailed(300, seed), infinite=True) for seed in range(8)]
        slots = [[next(rows)[0] for rows in map(iter, ranks)] for _ in range(16)]
        costs = [
            [sum(24576 * n + n * n for n in ranks[0].attended([row.count(one) for one in set(row) if one]))
             for row in slot] for slot in slots]
        return sum(map(max, costs)) / sum(number > 0 for slot in slots for row in slot for number in row)

    before = per_token()
    torchtitan.install_sft()
    assert per_token() < 0.92 * before


@every_kind
@pytest.mark.parametrize("rows_after", [3, 5])
def test_a_checkpoint_of_sft_resumes_amid_a_window(sft, kind, rows_after):
    lengths = long_tailed(100, 2)
    torchtitan.install_sft(rows=3)
    whole = list(kind(sft, lengths))
    for trained in range(len(whole)):
        saving = kind(sft, lengths)
        before = list(itertools.islice(saving, trained))
        resumed = kind(sft, lengths)
        resumed.load_state_dict(copy.deepcopy(saving.state_dict()))
        torchtitan.install_sft(rows=rows_after)
        again = kind(sft, lengths)
        again.load_state_dict(copy.deepcopy(resumed.state_dict()))
        after = list(again)
        torchtitan.install_sft(rows=3)
        assert sorted(itertools.chain(*numbers_of(before + after))) == list(range(1, 101))
        assert rows_after != 3 or before + after == whole


@every_kind
def test_streams_of_sft_go_on_epoch_after_epoch(sft, kind):
    torchtitan.install_sft(rows=2)
    lengths = [SEQ_LEN // 2, SEQ_LEN // 2 - 8, 1000, 900]
    rows = numbers_of(itertools.islice(kind(sft, lengths, infinite=True), 15))
    counts = [list(itertools.chain(*rows)).count(number) for number in (1, 2, 3, 4)]
    # But for what is read and not yet in a row.
    assert min(counts) >= 8 and max(counts) - min(counts) <= 2


def test_a_checkpoint_between_epochs_begins_the_next(sft):
    torchtitan.install_sft()
    dataset = sft.ChatDataset(long_tailed(100, 4))
    epoch = list(dataset)
    dataset.reloop()
    resumed = sft.ChatDataset(long_tailed(100, 4))
    resumed.load_state_dict(dataset.state_dict())
    assert list(resumed) == epoch and resumed._epoch == 1


def test_checkpoints_without_planned_rows(sft):
    lengths = long_tailed(100, 3)
    for trained in range(1, 6):
        saving = ChatDataset(lengths)
        before = list(itertools.islice(iter(saving), trained))
        torchtitan.install_sft()
        resumed = sft.ChatDataset(lengths)
        resumed.load_state_dict(saving.state_dict())
        assert sorted(itertools.chain(*numbers_of(before + list(resumed)))) == list(range(1, 101))
    with pytest.raises(ValueError, match="rows were packed by torchtitan's own packer"):
        Packed(sft, lengths).load_state_dict({"parent": {"next": 3}, "next_row": 1, "counter": 1})


@every_kind
def test_ends_of_streams_of_sft(sft, kind):
    torchtitan.install_sft(rows=2)
    assert list(kind(sft, [])) == list(kind(sft, [SEQ_LEN + 1])) == []
    assert numbers_of(kind(sft, [3])) == [[1]]
    assert sorted(numbers_of(kind(sft, [SEQ_LEN] * 5))) == [[1], [2], [3], [4], [5]]


@pytest.mark.parametrize("module, kind", [
    ("torchtitan.components.data.packing", Chat), ("torchtitan.hf_datasets.text_datasets", Packed)])
def test_either_version_of_sft_is_enough(sft, monkeypatch, module, kind):
    monkeypatch.setitem(sys.modules, module, None)
    lengths = long_tailed(300, 1)
    stock = len(list(kind(sft, lengths)))
    torchtitan.install_sft()
    assert len(list(kind(sft, lengths))) < stock


def test_an_sft_that_can_not_be_planned_is_refused(sft, monkeypatch, tmp_path):
    for wrong in ({"cost": 3.0}, {"effort": "much"}, {"rows": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            torchtitan.install_sft(**wrong)
    for kind, name in ((sft.ChatDataset, "__iter__"), (sft.FirstFitPackingConfig, "build")):
        own = type("Own", (kind,), {name: getattr(kind, name)})
        with pytest.raises(ValueError, match=f"Own is a {kind.__name__} with a {name} of its own"):
            torchtitan.install_sft()
        delattr(own, name)
    assert sft.ChatDataset.__iter__ is ChatDataset.__iter__
    for module, name in (("hf_datasets.text_datasets", "ChatDataset"),
                         ("components.data.packing", "FirstFitPackingConfig")):
        monkeypatch.delattr(sys.modules[f"torchtitan.{module}"], name)
    with pytest.raises(ValueError, match="has neither a ChatDataset nor a FirstFitPackingConfig"):
        torchtitan.install_sft()
    # What it needs and has not is told.
    (tmp_path / "text_datasets.py").write_text("import no_such_dependency\n")
    monkeypatch.setattr(sys.modules["torchtitan.hf_datasets"], "__path__", [str(tmp_path)], raising=False)
    monkeypatch.delitem(sys.modules, "torchtitan.hf_datasets.text_datasets")
    with pytest.raises(ImportError, match="no_such_dependency"):
        torchtitan.install_sft()
    monkeypatch.setitem(sys.modules, "torchtitan", None)
    with pytest.raises(ImportError, match="torchtitan"):
        torchtitan.install_sft()
