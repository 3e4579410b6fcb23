"""The entry point of the group "verl.plugins", which verl loads in every process that imports it."""

from __future__ import annotations

import sys
import traceback

from batchplan_plugins import switched_on

try:
    if switched_on():
        from batchplan.integrations.verl import install

        install()
except Exception:
    # verl reports what a plugin raises at the level of debugging only.
    traceback.print_exc(file=sys.stderr)
    raise
