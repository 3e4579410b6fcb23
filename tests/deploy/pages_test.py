#!/usr/bin/env python3
"""What the pages of deploy/ say of alerts, panels, log events and metrics, beside what there is.

Every alert has its section of runbooks.md, in the same order, which names only panels and events that exist;
every metric has a place in a dashboard or an alert, or metrics.md says that it has none.

    pages_test.py --deploy deploy
"""

import argparse
import json
import pathlib
import re

from processes import expect, report

# Events that are named after what they are about: methods.
METHODS = {"PlanBatch", "JoinBatch", "ReportStep"}


def alerts_of(rules):
    """(alert, its runbook) in their order."""
    blocks = re.split(r"^ +- alert: ", rules, flags=re.MULTILINE)[1:]
    return [(re.match(r"\w+", block).group(), re.findall(r"^ +runbook: (\S+)$", block, re.MULTILINE))
            for block in blocks]


def check_runbooks(alerts, runbooks, panels, events):
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", runbooks, re.MULTILINE | re.DOTALL))
    names = [name for name, _ in alerts]
    expect(len(names) > 10, f"rules.yaml: only the alerts {names} were found")
    expect(list(sections) == names, f"runbooks.md has {list(sections)}, rules.yaml {names}")
    for name, runbook in alerts:
        expect(runbook == [f"runbooks.md#{name.lower()}"], f"rules.yaml: {name}: runbook is {runbook}")
    for name, section in sections.items():
        for part in ("Means", "Look at", "Do"):
            expect(len(re.findall(rf"^\*\*{part}\.\*\* ", section, re.MULTILINE)) == 1, f"runbooks.md: {name}: not one **{part}.**")
        for panel in re.findall(r"(?<!\*)\*([A-Z][^*]*)\*(?!\*)", section):
            expect(" ".join(panel.split()) in panels, f"runbooks.md: {name}: no panel {panel}")
        for event in re.findall(r"event=(\w+)", section):
            expect(event in events | METHODS, f"runbooks.md: {name}: README.md has no event {event}")
        for anchor in re.findall(r"\(#(\w+)\)", section):
            expect(anchor in {one.lower() for one in names}, f"runbooks.md: {name}: no section {anchor}")


def metrics_in(text, known):
    """Those of `known` that a text has, also by a histogram's series."""
    return {re.sub(r"_(bucket|sum|count)$", "", name) if name not in known else name
            for name in re.findall(r"\b(?:batchplan|process)_\w+", text)} & known


def check_metrics(page, boards, rules):
    known = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    expect(len(known) > 50, f"metrics.md: only {len(known)} metrics were found")
    shown = metrics_in(boards, known) | metrics_in(rules, known)
    said = re.search(r"In no dashboard, and in no alert: (.*?)\n\n", page, re.DOTALL)
    said = set(re.findall(r"`(\w+)`", said.group(1))) if said else set()
    for name in sorted((known - shown) ^ said):
        expect(False, f"metrics.md: {name} is {'not shown, which it does not say' if name not in said else 'shown, or none'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deploy", type=pathlib.Path, required=True)
    deploy = parser.parse_args().deploy
    boards = [path.read_text() for path in sorted((deploy / "grafana/dashboards").glob("*.json"))]
    panels = {panel["title"] for board in boards for panel in json.loads(board)["panels"]}
    events = set(re.findall(r"`(\w+)`", " ".join(
        re.findall(r"^\| (`[\w`, ]+`) (?:and the other methods )?\| ", (deploy / "README.md").read_text(), re.MULTILINE))))
    rules = (deploy / "prometheus/rules.yaml").read_text()
    alerts = alerts_of(rules)
    check_runbooks(alerts, (deploy / "runbooks.md").read_text(), panels, events)
    check_metrics((deploy / "metrics.md").read_text(), "\n".join(boards), rules)
    print(f"{len(alerts)} alerts have their sections; {len(panels)} panels, {len(events)} events")
    report()


if __name__ == "__main__":
    main()
