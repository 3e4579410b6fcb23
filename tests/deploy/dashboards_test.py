#!/usr/bin/env python3
"""The dashboards and rules of deploy/, on a Prometheus that scrapes servers under load.

Every query of every panel, every template variable and every selector of every rule must find
data, and name only metrics that deploy/metrics.md has; dashboards must be well-formed.

    dashboards_test.py --bin build/release/bin --deploy deploy
"""

import argparse
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

from processes import Processes, expect, free_port, report, start_server

SCRAPE_SECONDS = 1
LOAD_SECONDS = 25
WINDOW = "10s"
# Of Prometheus' own, beside those of the table.
OTHER_METRICS = {"up"}
PANEL_TYPES = {"row", "stat", "timeseries", "heatmap", "table"}

class Prometheus:
    def __init__(self, port):
        self.url = f"http://127.0.0.1:{port}"

    def get(self, path, **parameters):
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.url}{path}?{query}", timeout=10) as answer:
            return json.load(answer)["data"]

    def wait_until_ready(self):
        for _ in range(100):
            try:
                urllib.request.urlopen(f"{self.url}/-/ready", timeout=5).close()
                return
            except OSError:
                time.sleep(0.2)
        sys.exit("Prometheus does not become ready")

    def finite_values(self, query):
        """How many series the query finds that have a number."""
        values = [float(series["value"][1]) for series in self.get("/api/v1/query", query=query)["result"]]
        return sum(math.isfinite(value) for value in values)


def metric_names(page):
    """Names in deploy/metrics.md, with those of a histogram's series."""
    names = set(OTHER_METRICS)
    for name, kind in re.findall(r"^\| `(\w+)` \| (\w+) ", page, re.MULTILINE):
        names.add(name)
        if kind == "histogram":
            names.update(name + end for end in ("_bucket", "_sum", "_count"))
    return names


def names_in(query):
    return set(re.findall(r"\b(?:batchplan|process)_\w+|\bup\b", query))


def selectors_in(query):
    """up{job="batchplan"}, batchplan:slow_plans:ratio_rate5m and the like."""
    return set(re.findall(r'\b(?:batchplan[_:][\w:]+|process_\w+|up)(?:\{[^}]*\})?', query))


def check_well_formed(path, board):
    where = path.name
    for key in ("uid", "title", "description", "schemaVersion", "templating", "panels", "time"):
        expect(board.get(key), f"{where}: no {key}")
    ids = [panel["id"] for panel in board["panels"]]
    expect(len(ids) == len(set(ids)), f"{where}: two panels have one id")
    variables = {variable["name"] for variable in board["templating"]["list"]}
    taken = {}
    for panel in board["panels"]:
        name = f'{where}: "{panel.get("title")}"'
        expect(panel.get("title"), f"{where}: a panel has no title")
        expect(panel.get("type") in PANEL_TYPES, f"{name}: type {panel.get('type')}")
        at = panel["gridPos"]
        expect(at["x"] + at["w"] <= 24, f"{name}: wider than the page")
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                expect((x, y) not in taken, f"{name}: lies over {taken.get((x, y))}")
                taken[x, y] = name
        if panel["type"] == "row":
            continue
        expect(len(panel.get("description", "")) > 10, f"{name}: no description")
        defaults = panel["fieldConfig"]["defaults"]
        expect(defaults.get("unit"), f"{name}: no unit")
        if panel["type"] == "stat":
            expect(defaults.get("thresholds"), f"{name}: no thresholds")
        expect(panel.get("targets"), f"{name}: no query")
        references = [target["refId"] for target in panel["targets"]]
        expect(len(references) == len(set(references)), f"{name}: two queries have one refId")
        for target in panel["targets"]:
            for variable in re.findall(r"\$\{?(\w+)", target["expr"]):
                expect(variable == "__rate_interval" or variable in variables, f"{name}: no variable {variable}")


def check_dashboard(path, prometheus, known):
    board = json.loads(path.read_text())
    check_well_formed(path, board)
    queries = 0
    for variable in board["templating"]["list"]:
        if variable["type"] != "query":
            continue
        metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"]).groups()
        expect(metric in known, f"{path.name}: ${variable['name']}: no metric {metric}")
        values = prometheus.get(f"/api/v1/label/{label}/values", **{"match[]": metric})
        expect(values, f"{path.name}: ${variable['name']} has no values")
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            name = f'{path.name}: "{panel["title"]}"'
            query = re.sub(r"\$(__rate_interval|window)", WINDOW, target["expr"])
            query = re.sub(r"\$\w+", ".*", query)
            for metric in names_in(query) - known:
                expect(False, f"{name}: no metric {metric}")
            expect(prometheus.finite_values(query) > 0, f"{name}: no data for {query}")
            queries += 1
    print(f"{path.name}: {queries} queries have data")


def check_rules(prometheus, known):
    recorded = set()
    groups = prometheus.get("/api/v1/rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    for rule in rules:
        if rule["type"] == "recording":
            recorded.add(rule["name"])
    selectors = 0
    for rule in rules:
        expect(rule["health"] == "ok", f"{rule['name']}: {rule.get('lastError', rule['health'])}")
        for metric in names_in(rule["query"]) - known:
            expect(False, f"{rule['name']}: no metric {metric}")
        for selector in selectors_in(rule["query"]):
            if ":" in selector:
                expect(selector in recorded, f"{rule['name']}: nothing records {selector}")
            expect(prometheus.finite_values(selector) > 0, f"{rule['name']}: no data for {selector}")
            selectors += 1
    expect(len(rules) > 10, "the rules were not loaded")
    print(f"rules: {len(rules)}, whose {selectors} selectors have data")


def start_servers(processes, binaries, folder):
    """Returns the gRPC target and the addresses to scrape."""
    servers = [start_server(processes, binaries, folder) for _ in range(2)]
    # Nobody calls this one: it has a certificate whose end can be seen.
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "30",
         "-keyout", folder / "key.pem", "-out", folder / "certificate.pem"],
        check=True, capture_output=True)
    secure = start_server(processes, binaries, folder, f"--tls_certificate={folder}/certificate.pem",
                          f"--tls_key={folder}/key.pem")
    return servers[0][0], [metrics for _, metrics in servers + [secure]]


def start_prometheus(processes, deploy, folder, targets):
    config = folder / "prometheus.yaml"
    config.write_text(json.dumps({
        "global": {"scrape_interval": f"{SCRAPE_SECONDS}s", "evaluation_interval": f"{SCRAPE_SECONDS}s"},
        "rule_files": [str((deploy / "prometheus" / "rules.yaml").resolve())],
        "scrape_configs": [{"job_name": "batchplan", "static_configs": [{"targets": targets}]}],
    }))
    port = free_port()
    with (folder / "prometheus.log").open("w") as log:
        processes.start("prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
                        f"--web.listen-address=127.0.0.1:{port}", stdout=log, stderr=log)
    prometheus = Prometheus(port)
    prometheus.wait_until_ready()
    return prometheus


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--deploy", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    known = metric_names((arguments.deploy / "metrics.md").read_text())
    with tempfile.TemporaryDirectory() as name, Processes() as processes:
        folder = pathlib.Path(name)
        target, scraped = start_servers(processes, arguments.bin, folder)
        prometheus = start_prometheus(processes, arguments.deploy, folder, scraped)
        load = processes.start(arguments.bin / "trainers_example", "--server", target, "--interval", "0.2",
                               stderr=subprocess.DEVNULL)
        time.sleep(LOAD_SECONDS)
        expect(load.poll() is None, "the trainers ended")
        for path in sorted((arguments.deploy / "grafana" / "dashboards").glob("*.json")):
            check_dashboard(path, prometheus, known)
        check_rules(prometheus, known)
    report()


if __name__ == "__main__":
    main()
