#!/usr/bin/env python3
"""A server's log as --log_format=json: every line of its standard error is an object of the right types.

    json_log_test.py --bin build/release/bin
"""

import argparse
import collections
import json
import pathlib
import re
import socket
import subprocess
import tempfile
import time

from processes import Processes, expect, report

LOAD_SECONDS = 4
NUMBERS = {"step", "sequences", "microbatches", "seconds", "open_files", "line", "loaded", "kept", "calls", "lines"}
SEVERITIES = {"INFO", "WARNING", "ERROR"}
# RFC 3339, in UTC.
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def check_line(line, fields_seen):
    try:
        found = json.loads(line)
    except ValueError:
        return expect(False, f"not JSON: {line}")
    expect(list(found)[:3] == ["time", "severity", "event"], f"does not begin with time, severity, event: {line}")
    expect(TIME.fullmatch(found["time"]), f"time is not RFC 3339: {line}")
    expect(found["severity"] in SEVERITIES, f"severity: {line}")
    for name, value in found.items():
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        expect(number == (name in NUMBERS), f"{name} is {value!r}: {line}")
        expect(number or isinstance(value, str), f"{name} is {value!r}: {line}")
        fields_seen[found["event"]].add(name)
    return found


def check_lines(path):
    """The fields of each event that occurs."""
    fields = collections.defaultdict(set)
    for line in path.read_text().splitlines():
        check_line(line, fields)
    return fields


def start(processes, command, log):
    with log.open("w") as file:
        server = processes.start(*command, stdout=file, stderr=file)
    for _ in range(200):
        found = re.search(r'"grpc":"([^"]*)"', log.read_text())
        if found or server.poll() is not None:
            return server, found and found.group(1)
        time.sleep(0.05)
    return server, None


def check_under_load(processes, binaries, folder):
    """The calls of trainers, a connection that speaks no HTTP/2, and the end."""
    log = folder / "server.log"
    server, target = start(processes, [
        binaries / "batchplan-server", "--log_format=json", "--listen=127.0.0.1:0", "--metrics_listen=127.0.0.1:0",
        "--drain_delay=0"], log)
    expect(target, f"the server does not start: {log.read_text()}")
    load = processes.start(binaries / "trainers_example", "--server", target, "--interval", "0.2",
                           stderr=subprocess.DEVNULL)
    host, port = target.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
    time.sleep(LOAD_SECONDS)
    # A worker may wait for others that have ended: it is not asked to end.
    load.kill()
    load.wait()
    server.terminate()
    expect(server.wait(20) == 0, "the server does not end with 0")
    fields = check_lines(log)
    for event in ("listening", "PlanBatch", "JoinBatch", "ReportStep", "draining", "stopped"):
        expect(event in fields, f"no line of {event}")
    expect({"job", "step", "sequences", "microbatches", "seconds", "code", "error"} <= fields["PlanBatch"],
           f"PlanBatch has only {fields['PlanBatch']}")
    expect("open_files" in fields["listening"], f"listening has only {fields['listening']}")
    print({event: len(names) for event, names in fields.items()})


def check_failure(binaries, folder):
    """A server that cannot start says why in the same form."""
    ran = subprocess.run(
        [binaries / "batchplan-server", "--log_format=json", "--listen=127.0.0.1:0", "--metrics_listen=127.0.0.1:0",
         f"--tls_certificate={folder}/missing.pem", f"--tls_key={folder}/missing.key"],
        capture_output=True, text=True, timeout=60)
    expect(ran.returncode == 1, f"a missing certificate ends the server with {ran.returncode}")
    lines = ran.stderr.splitlines()
    expect(len(lines) == 1, f"not one line: {ran.stderr}")
    found = [check_line(line, collections.defaultdict(set)) for line in lines]
    expect(found and found[0] and found[0]["event"] == "failed" and "missing.pem" in found[0].get("error", ""),
           f"does not say what is missing: {ran.stderr}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    binaries = parser.parse_args().bin
    with tempfile.TemporaryDirectory() as name, Processes() as processes:
        check_under_load(processes, binaries, pathlib.Path(name))
        check_failure(binaries, pathlib.Path(name))
    report()


if __name__ == "__main__":
    main()
