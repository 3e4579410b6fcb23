"""The rendered objects of deploy/kubernetes, and what they have to agree with."""

import math
import re

UNITS = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


class Sources:
    """What the manifests have to agree with: the server's flags, image names, the operator's page."""

    def __init__(self, project):
        deploy = project / "deploy"
        flags = (project / "server/flags.cc").read_text()
        self.flags = set(re.findall(r'flags->Add\(\s*"(\w+)"', flags)) | {"config"}
        self.files = set(re.findall(r'flags->Add\(\s*"(\w+)",[^;]*?"FILE"', flags))
        options = (project / "server/service/server_options.h").read_text()
        self.seconds = {name: float(number) for name, number in
                        re.findall(r"absl::Duration (\w+) = absl::Seconds\((\d+)\);", options)}
        self.bytes = {name: int(number or 1) << int(shift) for name, number, shift in
                      re.findall(r"int64_t (\w+_bytes) = (?:int64_t\{)?(\d+)\}? << (\d+);", options)}
        self.images = dict(re.findall(r"^(\w+_IMAGE)=(\S+)$", (deploy / ".env").read_text(), re.MULTILINE))
        self.page = (deploy / "kubernetes/README.md").read_text()
        self.job = re.search(r'up\{job="(\w+)"\}', (deploy / "prometheus/rules.yaml").read_text()).group(1)
        if not {"drain_delay", "shutdown_grace"} <= set(self.seconds) or len(self.flags) < 30:
            raise ValueError("server/flags.cc or server_options.h is not written as this test expects")

    def keys_of_secret(self, name):
        """The files that the operator's page puts into a Secret, None if it does not make it."""
        command = re.search(rf"kubectl .*create secret (generic|tls) {name}\b((?:.*\\\n)*.*)", self.page)
        if command is None:
            return None
        if command.group(1) == "tls":
            return {"tls.crt", "tls.key"}
        return set(re.findall(r"--from-file=([\w.-]+)=", command.group(2)))


class Cluster:
    """The objects of one rendering."""

    def __init__(self, objects, sources):
        self.objects = objects
        self.sources = sources
        self.workloads = self.of("Deployment", "StatefulSet")
        self.server = self.find("Deployment", "batchplan")

    def of(self, *kinds):
        return [item for item in self.objects if item["kind"] in kinds]

    def find(self, kind, name):
        return next((item for item in self.of(kind) if item["metadata"]["name"] == name), None)

    def selected(self, labels):
        """The workloads whose pods have the labels."""
        return [item for item in self.workloads
                if labels and labels.items() <= item["spec"]["template"]["metadata"]["labels"].items()]


def pods(workload):
    return workload["spec"]["template"]["spec"]


def containers(workload):
    return pods(workload).get("initContainers", []) + pods(workload)["containers"]


def server_container(cluster):
    return pods(cluster.server)["containers"][0]


def match_labels(selector):
    """Of a selector that has nothing else."""
    return selector["matchLabels"] if set(selector) == {"matchLabels"} else {}


def port_names(workload):
    return {port["name"]: port["containerPort"] for container in containers(workload)
            for port in container.get("ports", [])}


def has_port(workload, port):
    names = port_names(workload)
    return port in names if isinstance(port, str) else port in names.values()


def flags(cluster):
    """Those of the server's command line, by name."""
    words = server_container(cluster)["args"]
    return dict(re.fullmatch(r"--(\w+)(?:=(.*))?", word).groups() for word in words)


def environment_flags(cluster):
    """The server's flags that are variables, by name, with numbers in place of resourceFieldRef."""
    container, values = server_container(cluster), {}
    for variable in container.get("env", []):
        name = re.fullmatch(r"BATCHPLAN_(\w+)", variable["name"])
        if name:
            values[name.group(1).lower()] = variable.get("value") or str(_resource(container, variable))
    return values


def _resource(container, variable):
    kind, name = variable["valueFrom"]["resourceFieldRef"]["resource"].split(".")
    return math.ceil(float(container["resources"][kind][name]))


def command_line(cluster):
    return server_container(cluster)["args"] + [
        f"--{name}={value}" for name, value in environment_flags(cluster).items()]


def number_of_bytes(quantity):
    number, unit = re.fullmatch(r"(\d+)([A-Z]?i?)", quantity).groups()
    return int(number) * UNITS[unit]
