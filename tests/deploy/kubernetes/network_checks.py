"""What must be true of who finds and reaches whom, beyond schemas.

A check takes a Cluster and yields (object, field, what is wrong).
"""

import re

from cluster import flags, has_port, match_labels, pods, port_names

NAMESPACE_OF_DNS = {"kubernetes.io/metadata.name": "kube-system"}
# TCP alone: a socket, or the server's memory, needs no network.
STORE_URL = re.compile(r"rediss?(\+sentinel)?://(?:[^@/?]*@)?([^/?]+)(?:/.*)?")


def check_selectors(cluster):
    for item in cluster.workloads:
        if item not in cluster.selected(match_labels(item["spec"]["selector"])):
            yield item, "spec.selector", "does not match the labels of its own pods"
        for spread in pods(item).get("topologySpreadConstraints", []):
            if cluster.selected(match_labels(spread["labelSelector"])) != [item]:
                where = f"topologySpreadConstraints of {spread['topologyKey']}"
                yield item, where, "does not select its own pods"
        if not any(item in cluster.selected(match_labels(policy["spec"]["podSelector"]))
                   for policy in cluster.of("NetworkPolicy")):
            yield item, "spec.template.metadata.labels", "no NetworkPolicy selects its pods"
    for item in cluster.of("Service", "PodDisruptionBudget", "NetworkPolicy"):
        field = "podSelector" if item["kind"] == "NetworkPolicy" else "selector"
        selector = item["spec"][field]
        found = cluster.selected(selector if item["kind"] == "Service" else match_labels(selector))
        names = [workload["metadata"]["name"] for workload in found]
        if names != [item["metadata"]["name"]]:
            yield item, f"spec.{field}", f"selects the pods of {names}, not those of its namesake"


def check_services(cluster):
    for item in cluster.of("Service"):
        if item["spec"].get("clusterIP") != "None":
            yield item, "spec.clusterIP", "not None: clients balance between addresses themselves"
        for workload in cluster.selected(item["spec"]["selector"]):
            for port in item["spec"]["ports"]:
                where = f"spec.ports[{port['name']}]"
                if not isinstance(port["targetPort"], str) or not has_port(workload, port["targetPort"]):
                    yield item, where, f"its pods have no port named {port['targetPort']}"
                elif port["port"] != port_names(workload)[port["targetPort"]]:
                    yield item, where, "differs from its pods' port, which is what a headless name leads to"
    for item in cluster.of("StatefulSet"):
        if cluster.find("Service", item["spec"]["serviceName"]) is None:
            yield item, "spec.serviceName", f"no Service {item['spec']['serviceName']}"


def check_network_policies(cluster):
    for item in cluster.of("NetworkPolicy"):
        if sorted(item["spec"].get("policyTypes", [])) != ["Egress", "Ingress"]:
            yield item, "spec.policyTypes", "not both"
        for workload in cluster.selected(match_labels(item["spec"]["podSelector"])):
            for rule in item["spec"].get("ingress", []):
                if not rule.get("from") or not rule.get("ports"):
                    yield item, "spec.ingress", "from everybody, or to every port"
                for port in rule.get("ports", []):
                    if not has_port(workload, port["port"]):
                        yield item, "spec.ingress.ports", f"its pods have no port {port['port']}"
        for side, end in (("ingress", "from"), ("egress", "to")):
            for peer in (peer for rule in item["spec"].get(side, []) for peer in rule.get(end, [])):
                labels = match_labels(peer.get("podSelector", {}))
                if "namespaceSelector" not in peer and not cluster.selected(labels):
                    yield item, f"spec.{side}", f"no pods here have {labels}"


def check_way_in(cluster):
    """gRPC for labelled pods of any namespace, metrics for one namespace."""
    policy = cluster.find("NetworkPolicy", "batchplan")
    for name, selector in (("grpc", "podSelector"), ("http-metrics", "namespaceSelector")):
        number = port_names(cluster.server).get(name)
        peers = [peer for rule in policy["spec"]["ingress"] if _has_port(rule, cluster.server, number)
                 for peer in rule.get("from", [])]
        if not peers or not all(match_labels(peer.get(selector, {})) for peer in peers):
            yield policy, "spec.ingress", f"lets nobody, or anybody, to the port {name}"


def store_addresses(url):
    """The host and port of the Redis, or of each of its Sentinels, in a URL as of --rendezvous_store."""
    found = STORE_URL.fullmatch(url)
    if found is None:
        return []
    addresses = (re.fullmatch(r"(\[.*\]|[^:]*)(?::(\d+))?", address).groups() for address in found.group(2).split(","))
    return [(host, int(port or (26379 if found.group(1) else 6379))) for host, port in addresses]


def check_way_to_store(cluster):
    """From the server's URL of Redis, through both policies, to a port of Redis' pods; and to the DNS.

    A host with a dot is taken for one outside of the namespace: only the port can be checked. So is the master that
    Sentinels name: it is not checked at all.
    """
    policy = cluster.find("NetworkPolicy", "batchplan")
    addresses = store_addresses(flags(cluster).get("rendezvous_store", ""))
    if not addresses:
        if policy["spec"]["egress"]:
            yield policy, "spec.egress", "a server with a memory of its own calls nobody"
        return
    for host, number in addresses:
        yield from _check_way_to(cluster, policy, host, number)
    dns = {(port["port"], port.get("protocol", "TCP")) for rule in policy["spec"]["egress"]
           for peer in rule.get("to", []) if peer.get("namespaceSelector") == {"matchLabels": NAMESPACE_OF_DNS}
           for port in rule["ports"]}
    if dns != {(53, "TCP"), (53, "UDP")}:
        yield policy, "spec.egress", "does not let the server to the DNS over UDP and TCP"


def _check_way_to(cluster, policy, host, number):
    if "." in host:
        if not any(port["port"] == number for rule in policy["spec"]["egress"] for port in rule.get("ports", [])):
            yield policy, "spec.egress", f"does not let the server to {host}:{number}"
        return
    service = cluster.find("Service", host)
    if service is None:
        yield cluster.server, "args", f"--rendezvous_store: no Service {host}"
        return
    for store in cluster.selected(service["spec"]["selector"]):
        if number not in port_names(store).values():
            yield cluster.server, "args", f"--rendezvous_store: {host} has no port {number}"
        if not _allows(cluster, policy["spec"]["egress"], "to", store, store, number):
            yield policy, "spec.egress", f"does not let the server to {host}:{number}"
        theirs = cluster.find("NetworkPolicy", store["metadata"]["name"])
        if not _allows(cluster, theirs["spec"]["ingress"], "from", cluster.server, store, number):
            yield theirs, "spec.ingress", f"does not let the server to port {number}"


def _has_port(rule, workload, number):
    names = port_names(workload)
    return any(names.get(port["port"], port["port"]) == number for port in rule.get("ports", []))


def _allows(cluster, rules, end, peer_workload, port_workload, number):
    """Whether a rule has the port, and at its end pods of this namespace that are peer_workload's."""
    return any(
        "namespaceSelector" not in peer
        and peer_workload in cluster.selected(match_labels(peer.get("podSelector", {})))
        for rule in rules if _has_port(rule, port_workload, number) for peer in rule[end])


def check_service_monitors(cluster):
    """The schema of ServiceMonitor is the Prometheus Operator's; these are the fields used of it."""
    for item in cluster.of("ServiceMonitor"):
        spec = item["spec"]
        if item["apiVersion"] != "monitoring.coreos.com/v1":
            yield item, "apiVersion", item["apiVersion"]
        unknown = set(item) - {"apiVersion", "kind", "metadata", "spec"}
        for key in unknown | (set(spec) - {"jobLabel", "selector", "endpoints"}):
            yield item, key, "not a field that this test knows"
        labels = match_labels(spec.get("selector", {}))
        services = [service for service in cluster.of("Service")
                    if labels and labels.items() <= service["metadata"]["labels"].items()]
        if len(services) != 1:
            yield item, "spec.selector", f"selects {len(services)} Services instead of one"
            continue
        if services[0]["metadata"]["labels"].get(spec.get("jobLabel")) != cluster.sources.job:
            yield item, "spec.jobLabel", f"the job is not {cluster.sources.job}, which the rules expect"
        if not spec.get("endpoints"):
            yield item, "spec.endpoints", "none"
        for endpoint in spec.get("endpoints", []):
            yield from _check_endpoint(item, endpoint, services[0])


def _check_endpoint(item, endpoint, service):
    for key in set(endpoint) - {"port", "interval"}:
        yield item, f"spec.endpoints.{key}", "not a field that this test knows"
    ports = {port["name"] for port in service["spec"]["ports"]}
    if endpoint.get("port") not in ports & {"http-metrics"}:
        yield item, "spec.endpoints.port", f"{endpoint.get('port')} is not the Service's http-metrics"
    if not re.fullmatch(r"\d+s", endpoint.get("interval", "")):
        yield item, "spec.endpoints.interval", "not so many seconds"


CHECKS = [function for name, function in sorted(globals().items()) if name.startswith("check_")]
