"""Programs that a test runs beside itself, and what it finds of them."""

import re
import socket
import subprocess
import sys
import time

failures = []


def expect(condition, message):
    if not condition:
        failures.append(message)


def report():
    """Prints what was not as expected, and ends the test."""
    for failure in failures:
        print(f"FAILED: {failure}")
    sys.exit(1 if failures else 0)


def free_port():
    """A port that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Processes:
    """Started programs, ended in reverse order."""

    def __init__(self):
        self.running = []

    def start(self, *command, **options):
        self.running.append(subprocess.Popen([str(word) for word in command], **options))
        return self.running[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.running):
            process.terminate()
        for process in self.running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def start_server(processes, binaries, folder, *flags):
    """Returns the addresses of a new server's listeners."""
    log = folder / f"server-{len(processes.running)}.log"
    with log.open("w") as file:
        server = processes.start(
            binaries / "batchplan-server", "--listen=127.0.0.1:0", "--metrics_listen=127.0.0.1:0",
            "--drain_delay=0", *flags, stdout=file, stderr=file)
    for _ in range(200):
        found = re.search(r"event=listening grpc=(\S+) metrics=(\S+)", log.read_text())
        if found:
            return found.groups()
        if server.poll() is not None:
            break
        time.sleep(0.05)
    sys.exit(f"the server does not start: {log.read_text()}")
