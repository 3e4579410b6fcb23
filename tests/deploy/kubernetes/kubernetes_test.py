#!/usr/bin/env python3
"""The manifests of deploy/kubernetes, rendered offline and checked.

Each overlay, by itself and with its components: every object fits Kubernetes' own schemas, strictly, and
what schemas can't know holds (workload_checks.py, network_checks.py). Where kubectl or kustomize is at
hand, it has to render the same. Then each mistake of mutations.py is made in a copy, and has to be found.

    kubernetes_test.py --project . [--server build/release/bin/batchplan-server]

Skipped (77) without the packages of tests/requirements.txt.
"""

import pathlib
import re
import shutil
import subprocess
import tempfile

from validation import by_name, end, flag_error, read_arguments, schema_errors

import yaml

import kustomization
import network_checks
import workload_checks
from cluster import Cluster, Sources
from mutations import MUTATIONS

OVERLAYS = {
    "single-node": {"Deployment": 1, "NetworkPolicy": 1, "Service": 1, "ServiceAccount": 1},
    "high-availability": {
        "Deployment": 1, "HorizontalPodAutoscaler": 1, "NetworkPolicy": 2, "PodDisruptionBudget": 1,
        "Service": 2, "ServiceAccount": 1, "StatefulSet": 1},
}
COMPONENTS = {"service-monitor": {"ServiceMonitor": 1}, "tls": {}}
VARIANTS = [(overlay, components) for overlay in OVERLAYS
            for components in ((), ("service-monitor",), ("tls",), ("service-monitor", "tls"))]
CHECKS = workload_checks.CHECKS + network_checks.CHECKS


def use_components(overlay, components):
    """Removes the # before components, as the README says."""
    if not components:
        return
    path = overlay / "kustomization.yaml"
    text = path.read_text()
    for line in ("components:", *(f"  - ../../components/{name}" for name in components)):
        text, found = re.subn(rf"^# {re.escape(line)}$", line, text, flags=re.MULTILINE)
        if found != 1:
            raise kustomization.KustomizationError(f"{path}: {found} lines # {line}")
    path.write_text(text)


class Variant:
    """An overlay with components, in a copy of the manifests."""

    def __init__(self, manifests, overlay, components, folder):
        self.name = "+".join((overlay, *components))
        self.kinds = OVERLAYS[overlay] | {kind: count for name in components
                                          for kind, count in COMPONENTS[name].items()}
        self.root = pathlib.Path(folder) / "kubernetes"
        self.overlay = self.root / "overlays" / overlay
        shutil.copytree(manifests, self.root)
        use_components(self.overlay, components)

    def failures(self, sources, server):
        try:
            objects = kustomization.render(self.overlay)
        except kustomization.KustomizationError as error:
            return [str(error).replace(f"{self.root}/", "")]
        found = self.kinds_differ(objects) + [f"{self.where(item)}: {error}" for item in objects
                                              for error in schema_errors(item)]
        # Checks rely on what schemas demand.
        return found or self.check(Cluster(objects, sources), server)

    def where(self, item):
        return f"{self.name}: {item.path.relative_to(self.root)}: {item['kind']}/{item['metadata']['name']}"

    def kinds_differ(self, objects):
        kinds = {}
        for item in objects:
            kinds[item["kind"]] = kinds.get(item["kind"], 0) + 1
        return [] if kinds == self.kinds else [f"{self.name}: has {kinds} instead of {self.kinds}"]

    def check(self, cluster, server):
        found = []
        for check in CHECKS:
            try:
                found += [f"{self.where(item)}: {field}: {message}"
                          for item, field, message in check(cluster)]
            except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
                found.append(f"{self.name}: {check.__name__}: {type(error).__name__}: {error}")
        error = flag_error(cluster, server)
        return found + ([f"{self.where(cluster.server)}: args: {error}"] if error else [])


def kustomize_command():
    """kubectl or kustomize, where the kustomize in it is of version 5, else None."""
    for version, render in ((("kubectl", "version", "--client", "-o", "json"), ["kubectl", "kustomize"]),
                            (("kustomize", "version"), ["kustomize", "build"])):
        if shutil.which(version[0]):
            told = subprocess.run(version, capture_output=True, text=True, timeout=60).stdout
            if re.search(r'(?:"kustomizeVersion": "|^)v5\.', told):
                return render
    return None


def differences(variant, command):
    """Between what this test and kustomize render."""
    ran = subprocess.run([*command, variant.overlay], capture_output=True, text=True, timeout=60)
    if ran.returncode != 0:
        return [f"{variant.name}: {' '.join(command)}: {ran.stderr.strip()}"]
    theirs = by_name(yaml.safe_load_all(ran.stdout))
    ours = by_name(kustomization.render(variant.overlay))
    return [f"{variant.name}: {name}: {command[0]} renders\n{theirs.get(name)}\n"
            f"and this test\n{ours.get(name)}"
            for name in sorted(theirs.keys() | ours.keys()) if theirs.get(name) != ours.get(name)]


def check_variants(manifests, sources, server):
    failures, command = [], kustomize_command()
    for overlay, components in VARIANTS:
        with tempfile.TemporaryDirectory() as folder:
            variant = Variant(manifests, overlay, components, folder)
            found = variant.failures(sources, server)
            if command and not found:
                found = differences(variant, command)
            print(f"{variant.name}: {sum(variant.kinds.values())} objects, {len(found)} failures", flush=True)
            failures += found
    print(f"compared with {' '.join(command)}" if command else "no kubectl or kustomize 5 to compare with")
    return failures


def variant_of(path):
    """The overlay and the components in which a file counts. TLS replaces gRPC probes."""
    overlay = "single-node" if "single-node" in path else "high-availability"
    return overlay, ("tls",) if "tls" in path else ("service-monitor",)


def check_mutations(manifests, sources, server):
    """Mistakes that are not found, or not said to be what they are."""
    failures = []
    for path, old, new, report in MUTATIONS:
        with tempfile.TemporaryDirectory() as folder:
            variant = Variant(manifests, *variant_of(path), folder)
            text = (variant.root / path).read_text()
            (variant.root / path).write_text(text.replace(old, new))
            found = variant.failures(sources, server)
            if old not in text:
                failures.append(f"mutations.py: {path} has no {old!r}")
            elif not any(report in line for line in found):
                failures.append(f"mutations.py: {path}: {old!r} -> {new!r}: {found}, not {report!r}")
    print(f"{len(MUTATIONS)} mistakes made, {len(MUTATIONS) - len(failures)} found")
    return failures


def main():
    arguments = read_arguments(__doc__)
    manifests = arguments.project / "deploy" / "kubernetes"
    sources = Sources(arguments.project)
    failures = check_variants(manifests, sources, arguments.server)
    if not failures:
        failures = check_mutations(manifests, sources, arguments.server)
    end(failures)


if __name__ == "__main__":
    main()
