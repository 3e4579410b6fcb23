"""Objects validated by Kubernetes' schemas and by the server itself, and what programs that do so have in common.

Without the packages of tests/requirements.txt the program is skipped (77).
"""

import argparse
import functools
import json
import os
import pathlib
import subprocess
import sys

from cluster import command_line


def skip(error):
    print(f"skipped: {error}. python3 -m venv build/python && "
          "build/python/bin/pip install -r tests/requirements.txt")
    sys.exit(77)


try:
    import kubernetes_validate
    import yaml  # noqa: F401, which kustomization needs
except ImportError as missing:
    skip(missing)

# From the oldest that the README promises to the newest of which there are schemas.
VERSIONS = ("1.32", "1.34", "1.37")
CUSTOM_KINDS = {"PrometheusRule", "ServiceMonitor"}


@functools.cache
def _schema_error(text, version):
    """What is wrong with an object, in JSON, by the schemas of one version; None if nothing is."""
    item = json.loads(text)
    try:
        kubernetes_validate.validate(item, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        return f"{'.'.join(str(word) for word in error.path)}: {error.message}"
    except kubernetes_validate.SchemaNotFoundError:
        return f"apiVersion: no schema of {item['apiVersion']}"
    return None


def schema_errors(item):
    """What is wrong with an object by Kubernetes' schemas; those of other kinds are not known."""
    for version in VERSIONS if item["kind"] not in CUSTOM_KINDS else ():
        error = _schema_error(json.dumps(item), version)
        if error:
            yield f"{error} (Kubernetes {version})"


def flag_error(cluster, server):
    """Why the server refuses the flags of its Deployment; None if it reads them, or if there is no server to ask."""
    if server is None:
        return None
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BATCHPLAN_")}
    ran = subprocess.run([server, *command_line(cluster), "--print_config"], env=environment, text=True,
                         capture_output=True, timeout=60)
    return None if ran.returncode == 0 else ran.stderr.strip()


def by_name(objects):
    return {f"{item['kind']}/{item['metadata']['name']}": json.dumps(item, sort_keys=True)
            for item in objects}


def read_arguments(description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--project", type=lambda path: pathlib.Path(path).resolve(), required=True)
    parser.add_argument("--server", help="to have it read its flags")
    return parser.parse_args()


def end(failures):
    """Prints the failures, and ends the program."""
    for failure in failures:
        print(f"FAILED: {failure}")
    sys.exit(1 if failures else 0)
