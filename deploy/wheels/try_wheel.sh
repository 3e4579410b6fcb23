#!/usr/bin/env bash
# Installs a wheel into a fresh environment of a Python, and runs try_wheel.py there.
#
#   deploy/wheels/try_wheel.sh PYTHON WHEEL
#
# Tensors are tried where that Python has PyTorch, and a client where build/release has a server.
set -euo pipefail
python=${1:?names no Python; see the first lines of $0} wheel=$(realpath "${2:?names no wheel; see the first lines of $0}")
cd "$(dirname "$0")/../.."
environment=$(mktemp -d)
trap 'rm -rf "$environment"' EXIT

options=()
if "$python" -c 'import torch' 2>/dev/null; then options=(--system-site-packages); fi
"$python" -m venv "${options[@]}" "$environment"
"$environment/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: "$wheel"
server=build/release/bin/batchplan-server
if [ ! -x "$server" ]; then server=; fi
# Isolated: nothing of a clone is imported.
"$environment/bin/python" -I deploy/wheels/try_wheel.py ${server:+--server "$server"}
