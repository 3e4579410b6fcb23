"""batchplan.integrations: the interfaces that trainers know, and what they may rely on."""

import subprocess
import sys

import numpy
import pytest
from batchplan.integrations import trl, verl
from batchplan.integrations._agreement import agreement_in
from lengths import assert_each_once, long_tailed


@pytest.mark.parametrize("equal_size", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_verl_parts_are_alike(equal_size, seed):
    lengths = long_tailed(256, seed)
    parts = verl.get_seqlen_balanced_partitions(lengths, 8, equal_size)
    assert_each_once(parts, 256)
    assert all(part == sorted(part) for part in parts)
    if equal_size:
        assert {len(part) for part in parts} == {32}
    tokens = [sum(lengths[i] for i in part) for part in parts]
    assert max(tokens) / (sum(tokens) / 8) < 1.001


@pytest.mark.parametrize("longest", [4096, 60_000, 1_000_000])
@pytest.mark.parametrize("kind", [int, float])
def test_verl_parts_are_alike_in_what_is_given(longest, kind):
    """verl's trainers give workloads, which soon are above what lengths may be."""
    workloads = [kind(24576 * n + n * n) for n in long_tailed(256, 1, longest)]
    for scale in (1, 1e-9) if kind is float else (1,):
        given = [scale * one for one in workloads]
        sums = [sum(given[i] for i in part) for part in verl.get_seqlen_balanced_partitions(given, 8, True)]
        assert max(sums) / (sum(sums) / 8) < max(1.001, 1.001 * max(given) * 8 / sum(given))
    few = verl.get_seqlen_balanced_partitions([2**31 + 10] * 3, 2, False)
    assert sorted(map(len, few)) == [1, 2]
    assert_each_once(verl.get_seqlen_balanced_partitions([0, 0, 0, 5], 2, True), 4)
    for wrong in ([1, -1], [1.0, float("nan")]):
        with pytest.raises(ValueError, match=r"seqlen_list\[1\] is"):
            verl.get_seqlen_balanced_partitions(wrong, 1, False)


def test_verl_parts_that_can_not_be_had_are_errors():
    with pytest.raises(ValueError):
        verl.get_seqlen_balanced_partitions([1, 2, 3], 4, False)
    with pytest.raises(ValueError):
        verl.get_seqlen_balanced_partitions([1, 2, 3], 2, True)


def test_numbers_of_parts_are_named():
    with pytest.raises(ValueError, match="k_partitions is 0; must be at least 1"):
        verl.get_seqlen_balanced_partitions([1, 2, 3], 0, False)


def test_verl_micro_batches_keep_the_budget():
    # Of its own, verl makes a micro-batch of 14 here, and one over the budget of most long-tailed batches.
    assert len(verl.get_micro_batches([7] * 8, 8)) == 8
    for seed in range(20):
        lengths = long_tailed(64, seed)
        parts = verl.get_micro_batches(lengths, 4096)
        assert_each_once(parts, 64)
        assert max(sum(lengths[i] for i in part) for part in parts) <= 4096


def test_verl_numbers_of_micro_batches():
    lengths = long_tailed(64, 1, longest=1000)
    own = len(verl.get_micro_batches(lengths, 4096))
    assert len(verl.get_micro_batches(lengths, 4096, min_num_micro_batch=own + 2)) == own + 2
    assert len(verl.get_micro_batches(lengths, 4096, num_batches_divided_by=7)) % 7 == 0
    asked = []
    # The others need more, and more again once they have planned for that.
    others = iter((own + 3, own + 4, own + 4))
    parts = verl.get_micro_batches(
        lengths, 4096, agree=lambda number: asked.append(number) or max(number, next(others)))
    assert asked == [own, own + 3, own + 4] and len(parts) == own + 4
    groups = verl.get_micro_batches(lengths, 4096, force_group_size=4)
    part_of = {index: number for number, part in enumerate(groups) for index in part}
    assert all(len({part_of[first + i] for i in range(4)}) == 1 for first in range(0, 64, 4))


def test_ranks_agree_by_torch_distributed(tmp_path):
    distributed = pytest.importorskip("torch.distributed")
    distributed.init_process_group("gloo", f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        assert verl.by_all_reduce()(7) == 7
        assert agreement_in()(-7) == -7
    finally:
        distributed.destroy_process_group()
    assert agreement_in() is None


def test_no_trainer_is_imported_before_it_is_used():
    program = """
import importlib, pkgutil, sys
import batchplan.integrations as all
for module in pkgutil.iter_modules(all.__path__):
    # Those of a trainer's classes are imported with it.
    if not module.name.startswith("_"):
        importlib.import_module(f"{all.__name__}.{module.name}")
print(sorted({
    "torch", "ray", "transformers", "trl", "verl", "nemo_rl", "megatron", "roll", "mindspeed_rl", "areal", "slime",
    "miles", "axolotl", "open_instruct", "torchtitan", "unsloth", "skyrl", "openrlhf", "prime_rl", "swift",
    "nemo_automodel", "art"} & sys.modules.keys()))
"""
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert made.returncode == 0, made.stderr
    assert made.stdout == "[]\n"


class Rows:
    """What pack_dataset needs of a datasets.Dataset."""

    def __init__(self, columns):
        self.columns = columns
        self.column_names = list(columns)
        self.kwargs = None

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def select_columns(self, names):
        return Rows({name: self.columns[name] for name in names})

    def map(self, function, *, batched, batch_size, fn_kwargs, remove_columns, **kwargs):
        assert batched and set(remove_columns) == set(self.column_names)
        made = {}
        for begin in range(0, len(self), batch_size):
            batch = {name: column[begin : begin + batch_size] for name, column in self.columns.items()}
            for name, column in function(batch, **fn_kwargs).items():
                made.setdefault(name, []).extend(column)
        packed = Rows(made)
        packed.kwargs = kwargs
        return packed


def dataset_of(count, seed=0):
    ids = [[index * 10_000 + place for place in range(length)] for index, length in enumerate(
        long_tailed(count, seed, longest=900))]
    return Rows({"input_ids": ids, "labels": [[-token for token in row] for row in ids]})


def test_trl_datasets_come_back_packed():
    dataset = dataset_of(500)
    packed = trl.pack_dataset(dataset, 1024, map_kwargs={"batch_size": 200, "num_proc": 2})
    assert packed.kwargs == {"desc": "Packing", "num_proc": 2}
    assert packed.column_names == ["input_ids", "labels", "position_ids", "seq_lengths"]
    whole = []
    for ids, labels, positions, lengths in zip(*packed.columns.values()):
        assert len(ids) == len(positions) == sum(lengths) <= 1024
        assert labels == [-token for token in ids]
        begin = 0
        for length in lengths:
            assert positions[begin : begin + length] == list(range(length))
            whole.append(ids[begin : begin + length])
            begin += length
    assert sorted(whole) == sorted(dataset.columns["input_ids"])
    tokens = sum(map(len, whole))
    assert len(packed) <= -(-tokens // 1024) + 3


def test_trl_packs_the_columns_that_are_named():
    dataset = dataset_of(50)
    dataset.columns["text"] = ["?"] * 50
    dataset.column_names.append("text")
    packed = trl.pack_dataset(dataset, 1024, columns=["input_ids"])
    assert packed.column_names == ["input_ids", "position_ids", "seq_lengths"]
    with pytest.raises(ValueError, match='strategy is "wrapped"; must be "bfd"'):
        trl.pack_dataset(dataset, 1024, "wrapped")
    dataset.column_names = None
    with pytest.raises(ValueError, match="columns is not set"):
        trl.pack_dataset(dataset, 1024)


def test_trl_overlong_sequences_and_wrong_columns():
    rows = {"input_ids": [[1] * 5, [], [2] * 12], "text": ["a", "b", "c"]}
    packed = trl.pack_examples(rows, 8, ["input_ids"])
    assert sorted(packed["seq_lengths"]) == [[5], [8]]
    assert trl.pack_examples(rows, 8, ["input_ids"], "drop")["input_ids"] == [[1] * 5]
    assert trl.pack_examples({"input_ids": []}, 8)["seq_lengths"] == []
    assert trl.pack_examples({"input_ids": [[1] * 9]}, 8, None, "drop")["input_ids"] == []
    with pytest.raises(ValueError, match="12"):
        trl.pack_examples(rows, 8, ["input_ids"], "reject")
    with pytest.raises(ValueError, match=r"text\[0\] has not one entry for each of 5 tokens"):
        trl.pack_examples(rows, 8)
    for ids, message in (([None, [1]], r"input_ids\[0\] is None"), ([[1], [1]], "text has 3 rows; input_ids has 2")):
        with pytest.raises(ValueError, match=message):
            trl.pack_examples({**rows, "input_ids": ids}, 8)
    with pytest.raises(ValueError, match="input_ids must be among them"):
        trl.pack_examples(rows, 8, ["text"])
