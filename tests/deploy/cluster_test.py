#!/usr/bin/env python3
"""deploy/compose.yaml under podman: three replicas, Redis, Prometheus and trainers.

Builds the images of Dockerfile, the worker's without CUDA, and Redis and Prometheus from
Debian's packages; Grafana is left out. Then: all replicas are healthy and scraped, plans are served,
a worker packs and unpacks by them; a replica is killed, and plans are served on. Takes some fifteen
minutes, most of them the first build. As root.

    cluster_test.py --project .

Skipped (77) where podman, buildah, debootstrap or podman-compose (1.2 or later) is missing.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

from processes import free_port

PROJECT = "batchplan-test"
REGISTRY = "localhost/batchplan-test"
SERVERS = ["server-a", "server-b", "server-c"]
# Limits that a container's user may set, and a runtime that takes every layout of control groups.
CONTAINERS_CONF = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
runtime = "runc"
"""
# No setting of compose.yaml's: where a worker runs is the trainer's business.
WORKER_IMAGE = "WORKER_IMAGE"
# What compose.yaml takes from registries, as Debian has it: the package, and what compose.yaml expects of the official
# image, the folder that Redis writes to and the program that Prometheus' flags are for.
FROM_DEBIAN = {"REDIS_IMAGE": ("redis-server", "VOLUME /data"),
               "PROMETHEUS_IMAGE": ("prometheus", 'ENTRYPOINT ["prometheus"]')}


def run(*command, **options):
    print("+", *command, flush=True)
    return subprocess.run([str(word) for word in command], check=True, **options)


def wait_for(what, condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            print(f"{what}: yes", flush=True)
            return
        time.sleep(0.5)
    raise AssertionError(f"not within {seconds} s: {what}")


def prepare_base_image(project):
    """The base image of the Dockerfile: pulled, or made of Debian's packages."""
    base = re.search(r"^ARG BASE_IMAGE=(\S+)", (project / "Dockerfile").read_text(), re.MULTILINE).group(1)
    if subprocess.run(["podman", "image", "exists", base]).returncode == 0:
        return base
    if subprocess.run(["podman", "pull", "-q", base]).returncode == 0:
        return base
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / "root"
        run("debootstrap", "--variant=minbase", "bookworm", root, stdout=subprocess.DEVNULL)
        # What this machine's own apt is told, such as a proxy.
        for settings in pathlib.Path("/etc/apt/apt.conf.d").glob("99*"):
            shutil.copy(settings, root / "etc/apt/apt.conf.d")
        archive = pathlib.Path(folder) / "base.tar"
        run("tar", "-C", root, "-cf", archive, ".")
        run("podman", "import", "-q", archive, base)
    return base


def build(project, base):
    """Builds all images; returns the variables that name them."""
    images = {}
    for target, variable in (("server", "BATCHPLAN_SERVER_IMAGE"), ("trainers", "BATCHPLAN_TRAINERS_IMAGE"),
                             ("worker", WORKER_IMAGE)):
        images[variable] = f"{REGISTRY}/{target}"
        run("buildah", "bud", "--isolation", "chroot", "--format", "docker", "--layers", "--quiet",
            "--target", target, "--tag", images[variable], project)
    for variable, (package, setting) in FROM_DEBIAN.items():
        images[variable] = f"{REGISTRY}/{package}"
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "Dockerfile").write_text(
                f"FROM {base}\nRUN apt-get update -q && apt-get install -y -q --no-install-recommends {package}\n"
                f"{setting}\n")
            run("buildah", "bud", "--isolation", "chroot", "--layers", "--quiet", "--tag", images[variable], folder)
    return images


class Cluster:
    """A copy of deploy/, with an .env of its own."""

    def __init__(self, project, folder, variables):
        shutil.copytree(project / "deploy", folder / "deploy")
        settings = dict(re.findall(r"^(\w+)=(.*)$", (project / "deploy/.env").read_text(), re.MULTILINE))
        self.worker_image = variables.pop(WORKER_IMAGE)
        settings.update(variables)
        self.prometheus_port = free_port()
        for name in settings:
            if name.endswith("_PORT") or "_PORT_" in name:
                settings[name] = free_port()
        settings["PROMETHEUS_PORT"] = self.prometheus_port
        (folder / "deploy/.env").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self.compose = ["podman-compose", "-p", PROJECT, "-f", folder / "deploy/compose.yaml", "--profile", "demo"]

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        if failure is not None:
            for name in [*SERVERS, "redis", "prometheus", "trainers"]:
                subprocess.run(["podman", "logs", "--tail", "20", self.container(name)])
        run(*self.compose, "down", "-v")

    def start(self):
        run(*self.compose, "up", "-d", "--no-build", *SERVERS, "redis", "prometheus", "trainers")

    def container(self, service):
        return f"{PROJECT}_{service}_1"

    def query(self, expression):
        """Values by instance, or {} where Prometheus does not answer."""
        url = f"http://127.0.0.1:{self.prometheus_port}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                found = json.load(answer)["data"]["result"]
        except OSError:
            return {}
        return {series["metric"].get("instance", ""): float(series["value"][1]) for series in found}

    def up(self):
        return sum(self.query('up{job="batchplan"} == 1').values())


def check(cluster):
    wait_for("all replicas are scraped", lambda: cluster.up() == 3)
    for server in SERVERS:
        run("podman", "healthcheck", "run", cluster.container(server))
    wait_for("every replica plans", lambda: len(cluster.query("rate(batchplan_plans_total{preset=\"balanced\"}[30s]) > 0")) == 3, 90)
    wait_for("workers join through Redis",
             lambda: len(cluster.query('rate(batchplan_joins_total{outcome="joined"}[30s]) > 0')) == 3, 90)
    wait_for("rules are evaluated", lambda: cluster.query("batchplan:replicas_up") == {"": 3})

    # The example ends with an error unless packed and padded training agree.
    run("podman", "run", "--rm", "--read-only", "--network", f"{PROJECT}_default", cluster.worker_image,
        "--address", "dns:///server:50051", "--dp", "2", "--cp", "2")

    run("podman", "kill", cluster.container("server-b"))
    run("podman", "stop", "-t", "1", cluster.container("server-b"))
    wait_for("Prometheus misses it", lambda: cluster.up() == 2)
    since = time.time()
    time.sleep(20)
    plans = cluster.query(f"increase(batchplan_plans_total{{preset=\"balanced\"}}[{int(time.time() - since)}s]) > 0")
    assert set(plans) == {"server-a:9464", "server-c:9464"}, f"who plans on: {plans}"
    wait_for("workers join without it",
             lambda: len(cluster.query('rate(batchplan_joins_total{outcome="joined"}[15s]) > 0')) == 2)
    print(f"after the kill, in 20 s: {plans}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--project", type=pathlib.Path, required=True)
    project = parser.parse_args().project.resolve()
    missing = [name for name in ("podman", "buildah", "podman-compose", "debootstrap") if shutil.which(name) is None]
    if missing:
        print(f"skipped: {', '.join(missing)} missing")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "containers.conf").write_text(CONTAINERS_CONF)
        os.environ.setdefault("CONTAINERS_CONF", str(folder / "containers.conf"))
        images = build(project, prepare_base_image(project))
        with Cluster(project, folder, images) as cluster:
            cluster.start()
            check(cluster)


if __name__ == "__main__":
    main()
