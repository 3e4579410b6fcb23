"""Channels to servers, as the C++ client makes them."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import grpc

from batchplan._checks import text
from batchplan._errors import InvalidRequest

# Of a request or an answer: a million sequences take 16 MB at most. gRPC's own 4 MiB is too little.
_MESSAGE_BYTES = 64 << 20


@dataclasses.dataclass(frozen=True)
class Tls:
    """Files in PEM. Without authorities, those that this machine trusts."""

    authorities: str | os.PathLike[str] | None = None
    # Of the client, for a server that wants one: both or none.
    certificate: str | os.PathLike[str] | None = None
    key: str | os.PathLike[str] | None = None
    # The name in the server's certificate, if it is not the target's.
    server_name: str | None = None


def check_target(target: str) -> None:
    if not text("target", target):
        raise InvalidRequest("target is empty; must be host:port, or another target of gRPC's")


def options_for(tls: Tls | None) -> list[tuple[str, Any]]:
    """Retries, and a turn for each of a name's addresses, which are replicas."""
    retries = {
        "methodConfig": [
            {
                "name": [{"service": "batchplan.v1.BatchPlanner"}],
                "retryPolicy": {
                    "maxAttempts": 5,
                    "initialBackoff": "0.1s",
                    "maxBackoff": "2s",
                    "backoffMultiplier": 2,
                    # The latter is a full queue: the server says with it when to try again.
                    "retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"],
                },
            }
        ]
    }
    options: list[tuple[str, Any]] = [
        ("grpc.max_send_message_length", _MESSAGE_BYTES),
        ("grpc.max_receive_message_length", _MESSAGE_BYTES),
        # A larger request is sent once and never retried.
        ("grpc.per_rpc_retry_buffer_size", _MESSAGE_BYTES),
        ("grpc.lb_policy_name", "round_robin"),
        ("grpc.service_config", json.dumps(retries)),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 2000),
    ]
    if tls is not None and tls.server_name is not None:
        options.append(("grpc.ssl_target_name_override", tls.server_name))
    return options


def credentials_for(tls: Tls | None, token: str | None) -> grpc.ChannelCredentials | None:
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


def _read(path: str | os.PathLike[str] | None) -> bytes | None:
    return None if path is None else Path(path).read_bytes()
