"""Channels to servers, as the C++ client makes them."""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path
from typing import Any

import grpc

from batchplan import _core
from batchplan._checks import text
from batchplan._errors import InvalidRequest
from batchplan._retry import Failure

# Of a request or an answer: a million sequences take 16 MB at most. gRPC's own 4 MiB is too little.
_MESSAGE_BYTES = 64 << 20
_NEVER = -1.0
_WHOLE = re.compile(r"-?\d{1,9}")


@dataclasses.dataclass(frozen=True)
class Tls:
    """PEM files. Without authorities, the ones that this machine trusts."""

    authorities: str | os.PathLike[str] | None = None
    # The client's, for a server that asks for one: both or none.
    certificate: str | os.PathLike[str] | None = None
    key: str | os.PathLike[str] | None = None
    # The name in the server's certificate, if it is not the target's.
    server_name: str | None = None


def open_channel(api: Any, target: str, tls: Tls | None, token: str | None) -> Any:
    """A channel of `api`, which is grpc or grpc.aio. Nothing is connected before the first call."""
    if not text("target", target):
        raise InvalidRequest("target is empty; must be host:port, or another target of gRPC's")
    credentials = _credentials(tls, token)
    options = _options(tls)
    if credentials is None:
        return api.insecure_channel(target, options)
    return api.secure_channel(target, credentials, options)


def _options(tls: Tls | None) -> list[tuple[str, Any]]:
    """Uses the addresses of a name, which are replicas, in turn, and finds hanging ones by pings.
    Retries are left to _retry.py: gRPC's own end after two seconds, however long the call may take."""
    options: list[tuple[str, Any]] = [
        ("grpc.max_send_message_length", _MESSAGE_BYTES),
        ("grpc.max_receive_message_length", _MESSAGE_BYTES),
        ("grpc.lb_policy_name", "round_robin"),
        ("grpc.enable_retries", 0),
        ("grpc.keepalive_time_ms", _milliseconds(_core.KEEPALIVE_TIME)),
        ("grpc.keepalive_timeout_ms", _milliseconds(_core.KEEPALIVE_TIMEOUT)),
        # The name in newer versions of gRPC.
        ("grpc.http2.ping_timeout_ms", _milliseconds(_core.KEEPALIVE_TIMEOUT)),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.initial_reconnect_backoff_ms", _milliseconds(_core.INITIAL_BACKOFF)),
        ("grpc.max_reconnect_backoff_ms", _milliseconds(_core.MAX_BACKOFF)),
        # Despite its name, this limits how long a connection may take to be made.
        ("grpc.min_reconnect_backoff_ms", _milliseconds(_core.CONNECT_TIMEOUT)),
        ("grpc.dns_min_time_between_resolutions_ms", _milliseconds(_core.RESOLVE_INTERVAL)),
    ]
    if tls is not None and tls.server_name is not None:
        options.append(("grpc.ssl_target_name_override", tls.server_name))
    return options


def _credentials(tls: Tls | None, token: str | None) -> grpc.ChannelCredentials | None:
    """None for plain text."""
    if tls is not None and not isinstance(tls, Tls):
        raise InvalidRequest(f'tls is "{tls}"; must be a batchplan.Tls')
    if token is not None and not (text("token", token).isascii() and token.isprintable()):
        raise InvalidRequest("token has characters that no header takes; must be of printable ASCII")
    if tls is None:
        if token is not None:
            raise InvalidRequest("token is set without tls, and would be read on its way")
        return None
    if (tls.certificate is None) != (tls.key is None):
        raise InvalidRequest("tls.certificate and tls.key are needed both, or none of them")
    of_channel = grpc.ssl_channel_credentials(
        root_certificates=_read(tls.authorities),
        private_key=_read(tls.key),
        certificate_chain=_read(tls.certificate),
    )
    if token is None:
        return of_channel
    return grpc.composite_channel_credentials(of_channel, grpc.access_token_call_credentials(token))


def _milliseconds(seconds: float) -> int:
    return round(1000 * seconds)


def _read(path: str | os.PathLike[str] | None) -> bytes | None:
    return None if path is None else Path(path).read_bytes()


def failure_of(error: Any) -> Failure:
    """The failure in an error of grpc or grpc.aio."""
    pushback = None
    for name, value in error.trailing_metadata() or ():
        if name == "grpc-retry-pushback-ms":
            # As in gRPC, a value that is no number means never.
            pushback = int(value) / 1000 if _WHOLE.fullmatch(str(value)) else _NEVER
    message = error.details() or ""
    return Failure(error.code().value[0], message, _NEVER if _core.is_too_large(message) else pushback)
