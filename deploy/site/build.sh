#!/usr/bin/env bash
# Builds the site of the project's pages, with a reference of every interface, into build/site: open index.html there.
#
#   deploy/site/build.sh
#
# After tests/run.sh --python, whose environment has PyTorch and the package that the Python reference is of. The reference
# of the command is of build/release/bin, where that is built. A warning of MkDocs is an error: links and headings that are not
# there, pages that nobody reaches. Nothing of the site is fetched when it is read: no fonts, no trackers.
# Exits with 77 where requirements.txt can't be installed.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=build/python/bin/python3

"$python" -c 'import batchplan' 2>/dev/null || { echo "$0: $python has no batchplan; tests/run.sh --python installs it" >&2; exit 1; }
"$python" -m pip install --quiet --disable-pip-version-check --requirement deploy/site/requirements.txt || {
  echo "$0: SKIPPED: deploy/site/requirements.txt could not be installed" >&2
  exit 77
}
begin=$SECONDS
PYTHONPATH=deploy/site NO_MKDOCS_2_WARNING=1 "$python" -m mkdocs build --strict --config-file deploy/site/mkdocs.yml
echo "site: $(find build/site -name '*.html' | wc -l) pages in build/site, $((SECONDS - begin)) s"
