"""What `batchplan lengths` has Python's libraries read, in a process beside it.

    python3 -c THIS parquet FILE COLUMN...   its rows to stdout, as JSON lines of these columns
    python3 -c THIS tokens TOKENIZER         texts from stdin, their numbers of tokens to stdout

Says on stderr why it fails, for the user of the command.
"""

import sys

# What lies in the folder in which the command runs is no part of this program.
sys.path = [folder for folder in sys.path if folder]

import importlib  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import struct  # noqa: E402

# Rows that are held at a time.
ROWS = 64


def fail(why):
    sys.stderr.write(f"{why}\n")
    sys.stderr.flush()
    os._exit(1)


def library(name, package):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        fail(
            f"{sys.executable} has no {package}, which this needs ({error}); install it by "
            f"`{sys.executable} -m pip install {package}`, or name a Python that has it by BATCHPLAN_PYTHON"
        )


def write_rows(path, wanted):
    types = library("pyarrow.types", "pyarrow")
    compute = library("pyarrow.compute", "pyarrow")
    file = library("pyarrow.parquet", "pyarrow").ParquetFile(open(path, "rb"))
    columns = [name for name in file.schema_arrow.names if name in wanted]
    out = sys.stdout.buffer
    if not columns:
        # The first will do: it has nothing to measure.
        out.write(b"{}\n" * min(1, file.metadata.num_rows))
    for batch in file.iter_batches(batch_size=ROWS, columns=columns) if columns else ():
        values = [as_json(column, types, compute) for column in batch.columns]
        names = batch.schema.names
        for row in zip(*values):
            out.write(json.dumps(dict(zip(names, row)), ensure_ascii=False, default=as_text).encode() + b"\n")
    out.flush()


def as_text(value):
    """Of what JSON does not have."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def as_json(column, types, compute):
    """Its values, but lists of tokens as their lengths, which stand for them."""
    kind = column.type
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    if is_list and (types.is_integer(kind.value_type) or types.is_floating(kind.value_type)):
        column = compute.list_value_length(column)
    return column.to_pylist()


def count_tokens(path):
    with open(path, "rb") as file:
        tokenizer = library("tokenizers", "tokenizers").Tokenizer.from_buffer(file.read())
    # Those of training, which a file may ask for, would change the lengths.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    # Without the places of tokens, where the version can leave them out.
    encode = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)
    texts, counts = sys.stdin.buffer, sys.stdout.buffer
    # That the tokenizer can be read.
    counts.write(struct.pack("<I", 0))
    counts.flush()
    while head := texts.read(4):
        number = struct.unpack("<I", head)[0]
        sizes = struct.unpack(f"<{number}I", texts.read(4 * number))
        batch = [texts.read(size).decode(errors="replace") for size in sizes]
        counts.write(struct.pack(f"<{number}I", *map(len, encode(batch, add_special_tokens=False))))
        counts.flush()


try:
    work, path, *rest = sys.argv[1:]
    if work == "parquet":
        write_rows(path, set(rest))
    else:
        count_tokens(path)
except (BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
    os._exit(1)
except Exception as error:
    fail(f"{path}: {type(error).__name__}: {error}")
