#!/usr/bin/env python3
"""The chart of deploy/helm, rendered offline by Helm's own library, and checked.

Without values it is the overlay single-node, with high-availability.yaml the overlay of that name, both also with
their components. Every value of values.yaml changes what it says; what can't be is refused. The values that the README
shows for a Redis of one's own work. Rules and dashboards are those of deploy/, which stand nowhere else.

    chart_test.py --project . [--server build/release/bin/batchplan-server]

Skipped (77) without the packages of tests/requirements.txt.
"""

import json
import pathlib
import re
import tempfile

from validation import by_name, end, flag_error, read_arguments, schema_errors, skip

try:
    import helm_python
except ImportError as missing:
    skip(missing)
import yaml

import kustomization
import network_checks
import workload_checks
from cluster import Cluster, Sources
from kubernetes_test import COMPONENTS, OVERLAYS, Variant

NAMESPACE = "batchplan"
# Components of the overlays, by values.
COMPONENT_VALUES = {"tls": {"tls": {"enabled": True}}, "service-monitor": {"serviceMonitor": {"enabled": True}}}
# What a tool adds of itself.
TOOL_LABELS = ("app.kubernetes.io/managed-by", "helm.sh/chart")
ALL = {"tls": {"enabled": True}, "tokens": {"enabled": True},
       "serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}, "dashboards": {"enabled": True},
       "flags": {"max_waiting_bytes": 536870912, "drain_delay": 0.5, "verify_plans": True, "log_level": "warning"},
       "podSpec": {"nodeSelector": {"pool": "cpu"}}}
REDIS = {"redis": {"enabled": True}}
OWN_REDIS = {"redis": {"url": "redis://redis.databases.svc:6390/0", "egress": [{"ports": [{"port": 6390}]}]}}
SCALED = REDIS | {"autoscaling": {"enabled": True}}
# Each value of values.yaml: what is said besides, another value, and what the chart then has that it had not.
VALUES = {
    "image.repository": ({}, "registry.example/planner", "image: registry.example/planner:"),
    "image.tag": ({}, "theirs", "server:theirs"),
    "image.pullPolicy": ({}, "Always", "imagePullPolicy: Always"),
    "replicas": (REDIS, 4, "replicas: 4"),
    "resources.requests.cpu": ({}, "6", "cpu: '6'"),
    "resources.requests.memory": ({}, "3Gi", "memory: 3Gi"),
    "resources.limits.memory": ({}, "5Gi", "memory: 5Gi"),
    "flags": ({}, {"max_queued_plans": 128}, "--max_queued_plans=128"),
    "secrets": ({}, {"redis-tls": {"secretName": "theirs"}}, "mountPath: /run/secrets/redis-tls"),
    "podSpec": ({}, {"priorityClassName": "training"}, "priorityClassName: training"),
    "tls.enabled": ({}, True, "--tls_key=/run/secrets/tls/tls.key"),
    "tls.secretName": (COMPONENT_VALUES["tls"], "ours", "secretName: ours"),
    "tls.clientAuthority": (COMPONENT_VALUES["tls"], True, "--tls_client_ca=/run/secrets/tls/ca.crt"),
    "tokens.enabled": (COMPONENT_VALUES["tls"], True, "--auth_tokens=/run/secrets/tokens/tokens"),
    "tokens.secretName": (ALL, "ours", "secretName: ours"),
    "redis.enabled": ({}, True, "--rendezvous_store=redis://batchplan-redis:6379"),
    "redis.url": (OWN_REDIS, "redis://redis:7000", "--rendezvous_store=redis://redis:7000"),
    "redis.egress": (OWN_REDIS, [{"ports": [{"port": 7000}]}], "port: 7000"),
    "redis.secretName": (REDIS, "ours", "secretName: ours"),
    "redis.image": (REDIS, "registry.example/redis:7.4.2", "image: registry.example/redis:7.4.2"),
    "autoscaling.enabled": (REDIS, True, "kind: HorizontalPodAutoscaler"),
    "autoscaling.minReplicas": (SCALED, 5, "minReplicas: 5"),
    "autoscaling.maxReplicas": (SCALED, 20, "maxReplicas: 20"),
    "autoscaling.targetCPUUtilization": (SCALED, 50, "averageUtilization: 50"),
    "podDisruptionBudget.minAvailable": (SCALED, "75%", "minAvailable: 75%"),
    "networkPolicy.clients": ({}, [{"podSelector": {"matchLabels": {"app": "trainer"}}}], "app: trainer"),
    "networkPolicy.scrapers": ({}, [{"podSelector": {"matchLabels": {"app": "prometheus"}}}], "app: prometheus"),
    "serviceMonitor.enabled": ({}, True, "kind: ServiceMonitor"),
    "serviceMonitor.labels": (ALL, {"release": "monitor"}, "release: monitor"),
    "serviceMonitor.interval": (ALL, "30s", "interval: 30s"),
    "prometheusRule.enabled": ({}, True, "kind: PrometheusRule"),
    "prometheusRule.labels": (ALL, {"release": "rules"}, "release: rules"),
    "prometheusRule.runbookBase": (ALL, "https://example/deploy/",
                                   "runbook_url: https://example/deploy/runbooks.md#batchplandown"),
    "dashboards.enabled": ({}, True, "kind: ConfigMap"),
    "dashboards.labels.grafana_dashboard": (ALL, "yes-please", "grafana_dashboard: yes-please"),
    "dashboards.annotations": (ALL, {"grafana_folder": "Training"}, "grafana_folder: Training"),
}
# Of those, what goes, in place of what comes.
REMOVALS = {"networkPolicy.enabled": (REDIS, False, "kind: NetworkPolicy")}
REFUSALS = [
    ({"replica": 2}, "'replica' not allowed"),
    ({"redis": {"enabled": "yes"}}, "want boolean"),
    ({"flags": {"--log_level": "info"}}, "invalid propertyName '--log_level'"),
    ({"replicas": 2}, "needs a Redis that they share"),
    ({"autoscaling": {"enabled": True}}, "needs a Redis that they share"),
    ({"tokens": {"enabled": True}}, "tokens.enabled needs tls.enabled"),
    ({"tls": {"clientAuthority": True}}, "tls.clientAuthority needs tls.enabled"),
    ({"redis": {"url": "redis://redis:6379"}}, "redis.url needs redis.egress"),
    ({"redis": OWN_REDIS["redis"] | {"enabled": True}}, "one Redis, the chart's or your own"),
]


def merged(first, second):
    """As Helm lays values over values."""
    both = dict(first)
    for key, value in second.items():
        same = isinstance(value, dict) and isinstance(both.get(key), dict)
        both[key] = merged(both[key], value) if same else value
    return both


def leaves(values, prefix=""):
    """The keys of a values.yaml, with dots; an empty mapping is one."""
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def nested(key, value):
    for word in reversed(key.split(".")):
        value = {word: value}
    return value


class Chart:
    def __init__(self, folder):
        self.chart = helm_python.Chart.load(str(folder))
        self.values = self.chart.values

    def render(self, values):
        """The objects, as Manifests."""
        found = []
        for name, text in self.chart.render(values, name="planner", namespace=NAMESPACE).items():
            if not name.endswith(".txt"):
                found += [kustomization.Manifest(item, pathlib.Path(name)) for item in yaml.safe_load_all(text) if item]
        return found

    def text(self, values):
        return "\n".join(yaml.safe_dump(dict(item), width=1000) for item in self.render(values))


def without_tool_labels(objects):
    objects = json.loads(json.dumps(objects))
    for item in objects:
        template = item["spec"].get("template", {}) if "spec" in item else {}
        for metadata in (item["metadata"], template.get("metadata", {})):
            for label in TOOL_LABELS:
                metadata.get("labels", {}).pop(label, None)
    return by_name(objects)


def check_is_overlay(chart, manifests, overlay, components, values):
    """Object by object."""
    name = "+".join((overlay, *components))
    for component in components:
        values = merged(values, COMPONENT_VALUES[component])
    with tempfile.TemporaryDirectory() as folder:
        theirs = without_tool_labels(kustomization.render(Variant(manifests, overlay, components, folder).overlay))
    ours = without_tool_labels(chart.render(values))
    for item in sorted(theirs.keys() | ours.keys()):
        if theirs.get(item) != ours.get(item):
            yield f"{name}: {item}: the chart renders\n{ours.get(item)}\nand the overlay is\n{theirs.get(item)}"


def check_objects(chart, values, sources, server):
    """With all that can be on, by Kubernetes' schemas, the checks of the overlays and the server itself."""
    objects = chart.render(values)
    for item in objects:
        yield from (f"{item.path}: {item['kind']}: {error}" for error in schema_errors(item))
    cluster = Cluster(objects, sources)
    for check in workload_checks.CHECKS:
        yield from (f"{item.path}: {field}: {message}" for item, field, message in check(cluster))
    error = flag_error(cluster, server)
    if error:
        yield f"the server refuses its flags: {error}"


def check_own_redis(chart, values, sources, server):
    """The values that the README shows for a Redis of one's own; and each with a port that its egress does not have."""
    section = re.search(r"^## A Redis of your own\n(.*?)^## ", sources.page, re.MULTILINE | re.DOTALL).group(1)
    shown = re.findall(r"^```\n(redis:.*?)^```", section, re.MULTILINE | re.DOTALL)
    if len(shown) != 2:
        yield f"README: {len(shown)} values for a Redis of one's own instead of 2"
    for text in shown:
        own = merged(merged(values, {"redis": {"enabled": False}}), yaml.safe_load(text))
        yield from check_objects(chart, own, sources, server)
        yield from way_to_store(chart, own, sources)
        own["redis"]["url"] = re.sub(r":\d+", ":7000", own["redis"]["url"])
        if not any("does not let the server to" in failure for failure in way_to_store(chart, own, sources)):
            yield f"{own['redis']['url']} is not missed in {own['redis']['egress']}"


def way_to_store(chart, values, sources):
    return [f"{field}: {message}"
            for _, field, message in network_checks.check_way_to_store(Cluster(chart.render(values), sources))]


def check_values(chart):
    keys = set(leaves(chart.values))
    for key in sorted(keys ^ (VALUES.keys() | REMOVALS.keys())):
        yield f"{key} is {'not tried here' if key in keys else 'not in values.yaml'}"
    for key, (besides, value, text) in (VALUES | REMOVALS).items():
        before, after = chart.text(besides), chart.text(merged(besides, nested(key, value)))
        if key in REMOVALS:
            before, after = after, before
        if text in before or text not in after:
            yield f"{key}: {text!r} is not what it changes"


def check_flags_replace(chart):
    """A flag of the values stands in the place of the base's own, not beside it."""
    text = chart.text({"flags": {"drain_delay": 8}})
    if text.count("--drain_delay") != 1 or "--drain_delay=8" not in text:
        yield "flags: drain_delay does not replace that of the base"
    if "--max_waiting_bytes=2147483648" not in chart.text({"flags": {"max_waiting_bytes": 2147483648}}):
        yield "flags: a large number is not written in full"


def check_refusals(chart):
    for values, message in REFUSALS:
        try:
            chart.render(values)
            yield f"{values} is not refused"
        except helm_python.HelmError as error:
            if message not in str(error):
                yield f"{values} is refused with {error}, not {message!r}"


def check_sources(chart, deploy):
    """Rules and dashboards are the files of deploy/."""
    objects = {item["kind"]: item for item in chart.render(ALL)}
    if objects["PrometheusRule"]["spec"] != yaml.safe_load((deploy / "prometheus/rules.yaml").read_text()):
        yield "PrometheusRule: not rules.yaml"
    boards = {path.name: path.read_text() for path in (deploy / "grafana/dashboards").glob("*.json")}
    if not boards or objects["ConfigMap"]["data"] != boards:
        yield "ConfigMap: not grafana/dashboards/*.json"


def check_package(chart, folder):
    """An archive of the chart has what its links lead to."""
    with tempfile.TemporaryDirectory() as packed:
        archive = helm_python.package(str(folder), destination=packed)
        if Chart(archive).text(ALL) != chart.text(ALL):
            yield "the packed chart renders other objects than the folder"


def check_lint(folder):
    # There is no icon, which lint recommends: a finding of severity 1.
    for finding in helm_python.lint(str(folder), strict=True)["messages"]:
        if finding["severity"] > 1:
            yield f"lint: {finding['path']}: {finding['error']}"


def main():
    arguments = read_arguments(__doc__)
    deploy = arguments.project / "deploy"
    folder = deploy / "helm/batchplan"
    chart = Chart(folder)
    scaled = yaml.safe_load((folder / "high-availability.yaml").read_text())
    failures = []
    for overlay, values in zip(OVERLAYS, ({}, scaled), strict=True):
        for components in ((), *((name,) for name in COMPONENTS), tuple(COMPONENTS)):
            found = list(check_is_overlay(chart, deploy / "kubernetes", overlay, components, values))
            print(f"{'+'.join((overlay, *components))}: {len(found)} objects differ", flush=True)
            failures += found
    sources = Sources(arguments.project)
    failures += check_objects(chart, merged(scaled, ALL), sources, arguments.server)
    failures += check_own_redis(chart, merged(scaled, ALL), sources, arguments.server)
    for found in (check_values(chart), check_flags_replace(chart), check_refusals(chart), check_sources(chart, deploy),
                  check_package(chart, folder), check_lint(folder)):
        failures += found
    print(f"{len(VALUES) + len(REMOVALS)} values and {len(REFUSALS)} refusals tried")
    end(failures)


if __name__ == "__main__":
    main()
