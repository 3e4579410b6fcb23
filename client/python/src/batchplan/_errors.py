"""What goes wrong, as exceptions that say with which field."""

from __future__ import annotations

import re

from batchplan._argument_names import argument_of, with_arguments

# "manifest.lengths[3] is 0; ...", "preset is "x", ...", "mini_batches.size has ...", "passes[0]: ...".
_FIELD = re.compile(
    r'([a-z_]\w*(?:\[\d+\])*(?:\.\w+(?:\[\d+\])*)*)'
    # What a caller typed for it.
    r'(?: \([^()]+\))?'
    r'(?: is (?:("[^"]*")|([-+.\w]+)(?=[ ;,]|$)|([^;]+)(?=;))| has |(?<=\]): )'
)
# protobuf's words for a value that doesn't fit its field.
_UNFIT = re.compile(r"\((.+)\): invalid value (.+) for type (?:type\.googleapis\.com/)?(.+)", re.DOTALL)


class Error(Exception):
    """Whatever batchplan refuses or fails at; the classes below are the kinds to tell apart.

    Attributes:
        field: the field that is wrong, such as "passes[0].max_tokens_per_microbatch", or None.
        argument: what it is called in Python, such as "max_tokens", if that is another name; the message has it
            in parentheses. Else None.
        value: what stands in it, as the message has it, or None.
    """

    def __init__(self, message: str) -> None:
        super().__init__(with_arguments(message))
        found = _FIELD.match(message)
        self.field: str | None = found[1] if found else None
        self.argument = argument_of(found[1]) if found else None
        value = (found[2] or found[3] or found[4] or "") if found else ""
        self.value: str | None = value.strip('"') or None


class InvalidRequest(Error, ValueError):
    """No plan can be made of this: the same request fails everywhere, and again."""


class AccessDenied(Error, PermissionError):
    """The token is none of the server's, or not for this job."""


class FailedPrecondition(Error):
    """The request is valid, but what it builds on is not there: no costs are fitted yet, the worker's
    run was superseded by a later one, a store or a device is missing."""


class Overloaded(Error):
    """The server, or the memory, has no room now; the same request may work later."""


class DeadlineExceeded(Error, TimeoutError):
    """The time was over before there was an answer."""


class Unavailable(Error, ConnectionError):
    """No server can be reached, or it can't reach what it needs."""


class TlsError(Error):
    """A certificate, or a connection without any, that one side refuses: no outage, and trying again
    does not help."""


# The numbers are those of gRPC's and Abseil's status codes.
_CLASSES: dict[int, type[Error]] = {
    3: InvalidRequest,
    4: DeadlineExceeded,
    7: AccessDenied,
    8: Overloaded,
    9: FailedPrecondition,
    11: InvalidRequest,
    12: InvalidRequest,
    14: Unavailable,
    16: AccessDenied,
}


def from_status(code: int, message: str) -> Error:
    """The exception for a status that is not OK."""
    unfit = _UNFIT.fullmatch(message)
    if unfit:
        message = f"{unfit[1]} is {unfit[2]}, which is no {unfit[3].removeprefix('TYPE_').lower()}"
    return _CLASSES.get(code, Error)(message)
