"""What must be true of the pods of deploy/kubernetes beyond their schemas.

A check takes a Cluster and yields (object, field, what is wrong).
"""

import math
import re

from cluster import (
    containers, environment_flags, flags, has_port, number_of_bytes, pods, port_names, server_container)

PROBES = {"grpc", "httpGet", "tcpSocket", "exec"}


def check_labels(cluster):
    for item in cluster.objects:
        labels = item["metadata"].get("labels", {})
        for name in ("name", "component", "part-of"):
            if not labels.get(f"app.kubernetes.io/{name}"):
                yield item, "metadata.labels", f"no app.kubernetes.io/{name}"
        if item["metadata"].get("namespace") in (None, "default"):
            yield item, "metadata.namespace", "not one of its own"


def check_probes(cluster):
    for item in cluster.workloads:
        for container in containers(item):
            for probe in ("livenessProbe", "readinessProbe"):
                if probe not in container:
                    yield item, f"{container['name']}.{probe}", "missing"
            for probe in {"startupProbe", "livenessProbe", "readinessProbe"} & set(container):
                ways = PROBES & set(container[probe])
                if len(ways) != 1:
                    yield item, f"{container['name']}.{probe}", f"{sorted(ways)} instead of one way"
                for way in ways - {"exec"}:
                    port = container[probe][way]["port"]
                    if not has_port(item, port):
                        yield item, f"{container['name']}.{probe}.{way}.port", f"no port {port}"
                if "grpc" in ways and "tls_certificate" in flags(cluster):
                    yield item, f"{container['name']}.{probe}.grpc", "speaks no TLS"
    path = server_container(cluster)["livenessProbe"].get("httpGet", {}).get("path")
    if path != "/healthz":
        yield cluster.server, "livenessProbe", "not /healthz, so that a server that drains is killed"


def check_flags(cluster):
    given, variables = flags(cluster), environment_flags(cluster)
    for name in given:
        if name not in cluster.sources.flags:
            yield cluster.server, "args", f"the server has no flag --{name}"
    for name in variables:
        if name not in cluster.sources.flags:
            yield cluster.server, "env", f"the server has no flag --{name}"
    if int((variables | given).get("planning_threads", 0)) < 1:
        yield cluster.server, "args", "no planning_threads: the server would count the node's processors"
    for name, port in (("listen", "grpc"), ("metrics_listen", "http-metrics")):
        if given.get(name, "").rpartition(":")[2] != str(port_names(cluster.server).get(port)):
            yield cluster.server, f"ports[{port}]", f"is not the port of --{name}={given.get(name)}"


def check_stopping(cluster):
    seconds = cluster.sources.seconds | flags(cluster)
    needed = float(seconds["drain_delay"]) + float(seconds["shutdown_grace"])
    if pods(cluster.server).get("terminationGracePeriodSeconds", 30) <= needed:
        message = f"not more than drain_delay and shutdown_grace, {needed} s"
        yield cluster.server, "terminationGracePeriodSeconds", message


def check_security(cluster):
    for item in cluster.workloads:
        context = pods(item).get("securityContext", {})
        if context.get("runAsNonRoot") is not True or not context.get("runAsUser"):
            yield item, "securityContext", "no runAsNonRoot with a runAsUser"
        if context.get("seccompProfile") != {"type": "RuntimeDefault"}:
            yield item, "securityContext.seccompProfile", "not RuntimeDefault"
        for name in ("automountServiceAccountToken", "enableServiceLinks"):
            if pods(item).get(name) is not False:
                yield item, name, "not false"
        for container in containers(item):
            where, own = f"{container['name']}.securityContext", container.get("securityContext", {})
            if own.get("readOnlyRootFilesystem") is not True:
                yield item, where, "readOnlyRootFilesystem is not true"
            if own.get("allowPrivilegeEscalation") is not False:
                yield item, where, "allowPrivilegeEscalation is not false"
            if own.get("capabilities") != {"drop": ["ALL"]}:
                yield item, where, "capabilities are not dropped, all"
            if set(own) & {"runAsUser", "runAsNonRoot", "privileged", "seccompProfile"}:
                yield item, where, "overrides the pod's"


def check_images(cluster):
    expected = {"batchplan-server": "BATCHPLAN_SERVER_IMAGE", "redis": "REDIS_IMAGE"}
    for item in cluster.workloads:
        for container in containers(item):
            where, image = f"{container['name']}.image", container["image"]
            tag = image.rpartition("/")[2].partition(":")[2]
            if tag in ("", "latest"):
                yield item, where, f"{image} is not pinned"
            if image != cluster.sources.images.get(expected.get(container["name"])):
                yield item, where, f"{image} is not the one of deploy/.env"


def check_resources(cluster):
    for item in cluster.workloads:
        for container in containers(item):
            resources = container.get("resources", {})
            for kind, name in (("requests", "cpu"), ("requests", "memory"), ("limits", "memory")):
                if name not in resources.get(kind, {}):
                    yield item, f"{container['name']}.resources.{kind}", f"no {name}"
    limit = server_container(cluster).get("resources", {}).get("limits", {}).get("memory", "0")
    bounds = cluster.sources.bytes | environment_flags(cluster) | flags(cluster)
    names = {"max_waiting_bytes", "plan_cache_bytes"}
    if flags(cluster).get("rendezvous_store", "memory") == "memory":
        names.add("rendezvous_memory_bytes")
    needed = sum(int(bounds[name]) for name in names)
    if number_of_bytes(limit) <= needed:
        message = f"{limit} is not more than {sorted(names)}, {needed} bytes"
        yield cluster.server, "resources.limits.memory", message


def check_references(cluster):
    for item in cluster.workloads:
        account = pods(item).get("serviceAccountName")
        if account and cluster.find("ServiceAccount", account) is None:
            yield item, "serviceAccountName", f"no ServiceAccount {account}"
        volumes = {volume["name"]: volume for volume in pods(item).get("volumes", [])}
        for name, volume in volumes.items():
            if set(volume) == {"name", "emptyDir"}:
                if "sizeLimit" not in volume["emptyDir"]:
                    yield item, f"volumes[{name}].emptyDir", "no sizeLimit"
                continue
            if set(volume) != {"name", "secret"}:
                yield item, f"volumes[{name}]", "of a kind that this test does not know"
                continue
            secret = volume["secret"]["secretName"]
            if cluster.sources.keys_of_secret(secret) is None:
                yield item, f"volumes[{name}]", f"README.md does not make the Secret {secret}"
        for container in containers(item):
            for mount in container.get("volumeMounts", []):
                if mount["name"] not in volumes:
                    yield item, f"{container['name']}.volumeMounts", f"no volume {mount['name']}"
            if container.get("envFrom") or any("secretKeyRef" in variable.get("valueFrom", {})
                                               for variable in container.get("env", [])):
                yield item, f"{container['name']}.env", "Secrets are files, never variables"


def check_files(cluster):
    """Each file that a flag names, or the script of Redis reads, is a key of a Secret mounted there."""
    for item in cluster.workloads:
        container = pods(item)["containers"][0]
        text = " ".join(container["args"])
        keys_at = {}
        for mount in container.get("volumeMounts", []):
            volume = next((one for one in pods(item)["volumes"] if one["name"] == mount["name"]), {})
            name = volume.get("secret", {}).get("secretName")
            keys_at[mount["mountPath"]] = cluster.sources.keys_of_secret(name) or set()
        for path in re.findall(r"/run/secrets/[\w./-]+", text):
            folder, _, key = path.rpartition("/")
            if key not in keys_at.get(folder, set()):
                yield item, f"{container['name']}.args", f"no Secret of README.md has the file {path}"
    for name in cluster.sources.files & set(flags(cluster)):
        if not flags(cluster)[name].startswith("/run/secrets/"):
            yield cluster.server, "args", f"--{name}={flags(cluster)[name]} is no file of a Secret"


def check_replicas(cluster):
    server, scaler = cluster.server, cluster.find("HorizontalPodAutoscaler", "batchplan")
    strategy = server["spec"]["strategy"]
    if flags(cluster).get("rendezvous_store", "memory") == "memory":
        if server["spec"].get("replicas") != 1 or scaler:
            yield server, "spec.replicas", "not 1, but each replica has a memory of its own"
        if strategy != {"type": "Recreate"}:
            yield server, "spec.strategy", "not Recreate, but each replica has a memory of its own"
        return
    if strategy.get("rollingUpdate", {}).get("maxUnavailable") != 0:
        yield server, "spec.strategy.rollingUpdate.maxUnavailable", "not 0"
    if scaler is None:
        yield server, "spec.replicas", "no HorizontalPodAutoscaler"
        return
    if "replicas" in server["spec"]:
        yield server, "spec.replicas", "set, so that applying it undoes what the autoscaler did"
    target = scaler["spec"]["scaleTargetRef"]
    if target != {"apiVersion": "apps/v1", "kind": "Deployment", "name": "batchplan"}:
        yield scaler, "spec.scaleTargetRef", f"{target} is not the server"
    if not 3 <= scaler["spec"].get("minReplicas", 1) <= scaler["spec"]["maxReplicas"]:
        yield scaler, "spec.minReplicas", "not 3 or more, up to maxReplicas"


def check_disruption_budgets(cluster):
    scaler = cluster.find("HorizontalPodAutoscaler", "batchplan")
    budget = cluster.find("PodDisruptionBudget", "batchplan")
    if scaler and not budget:
        yield scaler, "metadata.name", "no PodDisruptionBudget batchplan beside it"
    if not scaler or not budget:
        return
    available = str(budget["spec"]["minAvailable"])
    for replicas in range(scaler["spec"].get("minReplicas", 1), scaler["spec"]["maxReplicas"] + 1):
        needed = int(available.rstrip("%"))
        needed = math.ceil(needed * replicas / 100) if available.endswith("%") else needed
        if not replicas / 2 < needed < replicas:
            message = f"{needed} of {replicas}: not most of them, or no node can drain"
            yield budget, "spec.minAvailable", message


CHECKS = [function for name, function in sorted(globals().items()) if name.startswith("check_")]
