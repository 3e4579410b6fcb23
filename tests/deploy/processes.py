"""Programs that a test runs beside itself, and what it finds of them."""

import contextlib
import os
import pathlib
import re
import socket
import subprocess
import sys
import time

failures = []
# Sockets with the names of ports; each name is had once.
reservations = []


def expect(condition, message):
    if not condition:
        failures.append(message)


def report():
    """Prints what was not as expected, and ends the test."""
    for failure in failures:
        print(f"FAILED: {failure}")
    sys.exit(1 if failures else 0)


def free_port():
    """A port on which nobody listens; until this process ends no other test gets it, and no program
    that lets the kernel choose its port. As reserved_port.cc has it, with the same names."""
    first, beyond = 10000, 30000
    chosen_by_kernel = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    if chosen_by_kernel > first:
        beyond = min(beyond, chosen_by_kernel)
    for i in range(beyond - first):
        port = first + (os.getpid() + i) % (beyond - first)
        reservation = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError), socket.socket() as listener:
            reservation.bind(f"\0batchplan-test-port-{port}")
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("", port))
            reservations.append(reservation)
            return port
        reservation.close()
    raise OSError(f"no port from {first} to {beyond - 1} is free")


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
