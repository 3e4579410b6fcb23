"""`batchplan lengths` of what Python's libraries read: Parquet files, and texts counted by a tokenizer."""

import json
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tokenizers


@pytest.fixture(scope="session")
def lengths(start):
    def lengths(*arguments, stdin="", cwd=None, python=sys.executable):
        return subprocess.run(
            [start.binaries / "batchplan", "lengths", *map(str, arguments)],
            # What the command runs has this process's packages.
            env={**os.environ, "BATCHPLAN_PYTHON": str(python)},
            input=stdin, cwd=cwd, capture_output=True, text=True, timeout=300,
        )

    return lengths


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """A tokenizer of one token a word, with what would change lengths: special tokens, and a limit."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "[UNK]": 1, "[CLS]": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing("[CLS] $A", special_tokens=[("[CLS]", 2)])
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=3)
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


def printed(result):
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return [int(line) for line in result.stdout.split()]


CHATS = [
    [{"role": "user", "content": "12345678"}, {"role": "assistant", "content": "123456789012"}],
    [{"role": "user", "content": "1"}],
]


def test_rows_of_parquet_are_measured_as_json_lines_are(lengths, tmp_path):
    tables = {
        "chats": {"id": [1, 2], "messages": CHATS},
        "texts": {"text": ["12345", "ü"], "image": [b"\xff\x00", b"\xfe"]},
        "tokens": {"input_ids": [[1, 2, 3], [4]], "text": ["", ""]},
        "alpaca": {"instruction": ["1234", "1"], "input": [None, "23"], "output": ["1", "4"]},
        "large": {"input_ids": pa.array([[1, 2], [3]], pa.large_list(pa.int64()))},
        "bytes": {"text": [b"12345", b"1"]},
        "words": {"text": pa.array(["12345", "1"]).dictionary_encode()},
    }
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    expected = {"chats": [5, 1], "texts": [2, 1], "tokens": [3, 1], "alpaca": [2, 1], "large": [2, 1]}
    expected |= {"bytes": [2, 1], "words": [2, 1]}
    for name, values in expected.items():
        assert printed(lengths(tmp_path / f"{name}.parquet")) == values, name
    assert printed(lengths("--field", "messages,id", tmp_path / "chats.parquet")) == [6, 3]


def test_parquet_is_read_in_order_across_row_groups(lengths, tmp_path):
    sizes = [1 + 7 * i % 1000 for i in range(5000)]
    table = pa.table({"nested": [{"n": size} for size in sizes], "other": ["x" * 100] * len(sizes)})
    pq.write_table(table, tmp_path / "train-0", row_group_size=700)
    assert printed(lengths("--field", "nested.n", tmp_path)) == sizes
    assert printed(lengths("--field", "nested.n", "--limit", 2, tmp_path / "train-0")) == sizes[:2]


def test_a_row_without_a_length_is_named(lengths, tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["1234", "", "12345"]}), path)
    result = lengths(path)
    assert (result.returncode, result.stdout) == (1, "1\n")
    assert f"{path}: record 2: has length 0" in result.stderr
    result = lengths("--skip_empty", path)
    assert (result.returncode, result.stdout) == (0, "1\n2\n")
    assert f'{path}: record 1: has no field "txt"' in lengths("--field", "txt", path).stderr
    pq.write_table(pa.table({"answer": ["1234"]}), path)
    assert f"{path}: record 1: has the fields of no format" in lengths(path).stderr


def test_what_is_no_parquet_is_refused(lengths, tmp_path):
    broken = tmp_path / "broken.parquet"
    pq.write_table(pa.table({"text": ["1234"]}), broken)
    broken.write_bytes(broken.read_bytes()[:-9])
    result = lengths(broken)
    assert result.returncode == 1
    assert f"{broken}: ArrowInvalid: " in result.stderr
    pointer = tmp_path / "pointer.parquet"
    pointer.write_text("version https://git-lfs.github.com/spec/v1\nsize 12345\n")
    assert f"{pointer}: is not a Parquet file" in lengths(pointer).stderr


def test_a_tokenizer_counts_texts_without_special_tokens_and_limits(lengths, words, tmp_path):
    chats = tmp_path / "chats.jsonl"
    chats.write_text("".join(json.dumps(record) + "\n" for record in (
        {"messages": [{"role": "user", "content": "a b c d e"}, {"role": "assistant", "content": "f ü"}]},
        {"input_ids": [1, 2]},
        {"text": "a"},
    )))
    assert printed(lengths("--tokenizer", words, chats)) == [7, 2, 1]
    # The folder of a model has its tokenizer.
    assert printed(lengths("--tokenizer", words.parent, "--limit", 2, chats)) == [7, 2]
    assert printed(lengths("--tokenizer", words, "--per", "line", "-", stdin="a b\n\na b c\n")) == [2, 3]
    pq.write_table(pa.table({"messages": CHATS, "text": ["a b", "c"]}), tmp_path / "a.parquet")
    assert printed(lengths("--tokenizer", words, tmp_path / "a.parquet")) == [2, 1]


def test_texts_of_any_size_are_counted_in_pieces(lengths, words, tmp_path):
    counts = [1, 300_000, 7, 1_000_000, 2]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": "a " * n}) + "\n" for n in counts))
    assert printed(lengths("--tokenizer", words, tmp_path / "a.jsonl")) == counts
    (tmp_path / "b.txt").write_text("word " * 500_000)
    assert printed(lengths("--tokenizer", words, tmp_path / "b.txt")) == [500_000]
    many = [{"text": "a " * (1 + i % 5)} for i in range(20_000)]
    (tmp_path / "c.json").write_text(json.dumps(many))
    assert printed(lengths("--tokenizer", words, tmp_path / "c.json")) == [1 + i % 5 for i in range(20_000)]


def test_a_record_without_tokens_is_named(lengths, words):
    stdin = '{"text": "a b"}\n{"text": " "}\n{"text": "a"}\n'
    result = lengths("--tokenizer", words, "--per", "record", "-", stdin=stdin)
    assert (result.returncode, result.stdout) == (1, "2\n")
    assert "stdin:2: has length 0" in result.stderr
    assert lengths("--tokenizer", words, "--per", "record", "--skip_empty", "-", stdin=stdin).stdout == "2\n1\n"
    # What stands before an error is printed.
    result = lengths("--tokenizer", words, "--per", "record", "-", stdin='{"text": "a b"}\n{\n')
    assert (result.returncode, result.stdout) == (1, "2\n")


def test_what_is_missing_is_named(lengths, words, tmp_path):
    assert "no.json: there is no such file" in lengths("--tokenizer", tmp_path / "no.json", "-").stderr
    wrong = tmp_path / "wrong.json"
    wrong.write_text("{}")
    result = lengths("--tokenizer", wrong, "-", stdin="a")
    assert result.returncode == 1
    assert str(wrong) in result.stderr
    # A Python without packages.
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    result = lengths("--tokenizer", words, "-", python=bare, stdin="a")
    assert result.returncode == 1
    assert f"batchplan: lengths: {sys.executable} has no tokenizers, which this needs" in result.stderr
    assert "-m pip install tokenizers" in result.stderr
    pq.write_table(pa.table({"text": ["1234"]}), tmp_path / "a.parquet")
    result = lengths(tmp_path / "a.parquet", python=bare)
    assert "-m pip install pyarrow" in result.stderr
    result = lengths(tmp_path / "a.parquet", python="/no/python")
    assert "can't run /no/python" in result.stderr
    # Modules of the folder in which the command runs are not imported.
    (tmp_path / "json.py").write_text("raise SystemExit('imported')")
    assert printed(lengths("a.parquet", cwd=tmp_path)) == [1]
