#!/usr/bin/env python3
"""Measures again what the documents' tables of benchmarks say, and prints both, one under the other.

A figure is a fenced command of tests/bench, or of `batchplan bench`, with the table below it. The commands stand in the
documents alone.

    tests/bench/figures.py --list
    tests/bench/figures.py [--only TEXT] [--build build/release] >figures.md

Everything takes about an hour and a half. Commands of Python run with the interpreter of this script, which so needs
their packages. `--server ...` becomes the address of a server that this script starts, one for each command.
"""

import argparse
import dataclasses
import os
import pathlib
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import time

PROJECT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = ("README.md", "tests/bench/README.md", "deploy/scale.md", "kernels/README.md", "client/python/README.md")
COMMAND = re.compile(r"(build/release/bench/|tests/bench/\w+\.py|batchplan bench )")


@dataclasses.dataclass
class Figure:
    document: str
    heading: str
    commands: list
    table: list

    @property
    def name(self):
        return f"{self.document}: {self.heading}"


def fenced_commands(lines):
    """The commands of a fence, without their comments; `[--flag]` is the command without the flag, and with it."""
    commands = []
    for line in lines:
        command = line.split("  #")[0].split(" # ")[0].strip()
        option = re.search(r" \[(--\w+)\]", command)
        if option:
            commands += [command.replace(option.group(0), ""), command.replace(option.group(0), " " + option.group(1))]
        else:
            commands.append(command)
    return commands


def figures(document):
    """The figures of one document, in its order."""
    lines = (PROJECT / document).read_text().splitlines()
    heading, found, index = "", [], 0
    while index < len(lines):
        line = lines[index]
        index += 1
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if not line.startswith("```"):
            continue
        end = lines.index("```", index)
        fence, index = lines[index:end], end + 1
        while index < len(lines) and not lines[index]:
            index += 1
        table = []
        while index < len(lines) and lines[index].startswith("|"):
            table.append(lines[index])
            index += 1
        if table and fence and all(COMMAND.match(command) for command in fence):
            found.append(Figure(document, heading, fenced_commands(fence), table))
    return found


class Server:
    """A server on a port of its own, for the time of a with statement."""

    def __init__(self, build):
        self.program = build / "bin/batchplan-server"

    def __enter__(self):
        self.log = tempfile.NamedTemporaryFile("r")  # A pipe would be full one day.
        self.process = subprocess.Popen([self.program, "--listen=127.0.0.1:0", "--metrics_listen=127.0.0.1:0"],
                                        stderr=open(self.log.name, "w"))
        for _ in range(100):
            self.log.seek(0)
            if found := re.search(r" grpc=(\S+)", self.log.read()):
                return found.group(1)
            time.sleep(0.1)
        self.__exit__()
        raise RuntimeError(f"{self.program} did not start")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.log.close()


def arguments_of(command, build, address):
    words = shlex.split(command.replace("--server ...", f"--server {address}"))
    if words[0] == "batchplan":
        return [str(build / "bin/batchplan"), *words[1:]]
    if words[0].endswith(".py"):
        return [sys.executable, str(PROJECT / words[0]), *words[1:]]
    return [str(build / pathlib.Path(words[0]).relative_to("build/release")), *words[1:]]


def run(command, build):
    """What the command prints, and whether it ended well."""
    start = time.monotonic()
    if "--server ..." in command:
        with Server(build) as address:
            ran = subprocess.run(arguments_of(command, build, address), capture_output=True, text=True, cwd=PROJECT)
    else:
        ran = subprocess.run(arguments_of(command, build, None), capture_output=True, text=True, cwd=PROJECT)
    print(f"```\n$ {command}\n{ran.stdout.rstrip()}")
    if ran.returncode != 0:
        print(ran.stderr.rstrip())
    print(f"```\n{time.monotonic() - start:.0f} s, exit code {ran.returncode}\n", flush=True)
    return ran.returncode == 0


def machine():
    """The processor, and the version that is measured."""
    processor = next((line.split(":")[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                      if line.startswith("model name")), platform.machine())
    version = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=PROJECT, capture_output=True, text=True)
    return f"{os.cpu_count()} cores of {processor}, {platform.platform()}; version {version.stdout.strip()}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=PROJECT / "build/release", help="the build to measure")
    parser.add_argument("--only", default="", help="figures whose document, heading or command has this text")
    parser.add_argument("--list", action="store_true", help="print the commands, and fail where a program is not built")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    chosen = [figure for document in DOCUMENTS for figure in figures(document)
              if any(arguments.only.lower() in text.lower() for text in (figure.name, *figure.commands))]
    if not chosen:
        sys.exit(f"no figure has {arguments.only!r}; --list prints them")
    well = True
    if not arguments.list:
        print(f"{machine()}\n")
    for figure in chosen:
        print(f"## {figure.name}")
        if not arguments.list:
            print("\n".join(("", "The document has:", *figure.table, "")), flush=True)
        for command in figure.commands:
            if not arguments.list:
                well &= run(command, build)
                continue
            words = arguments_of(command, build, "HOST:PORT")
            missing = [word for word in words[:2] if "/" in word and not pathlib.Path(word).exists()]
            print(f"{command}{''.join(f'    (not there: {word})' for word in missing)}")
            well &= not missing
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
