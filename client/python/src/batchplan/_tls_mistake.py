"""Certificates that one side refuses, told apart from servers that can't be reached."""

from __future__ import annotations

import errno
import os
import re
import socket
import ssl
import time

from batchplan._channel import Tls
from batchplan._retry import Work

# What gRPC says of a handshake that failed by more than a broken connection.
_TOLD = re.compile(
    r"SSL_ERROR_SSL|CERTIFICATE_VERIFY_FAILED|Hostname Verification Check failed"
    r"|is not in peer certificate|Failed to create security handshaker"
)
# All that it says where the other side closes a connection, such as one without the certificate
# that it wants, which comes after the handshake in TLS 1.3; or the system's words for these, in the language of the
# process's locale.
_CLOSED = ("Socket closed", "Connection reset", "Broken pipe", "recvmsg")
_CLOSED_BY_THE_SYSTEM = (errno.ECONNRESET, errno.EPIPE)
# The one alert that says nothing of the client.
_PASSES = "ALERT_INTERNAL_ERROR"
_UNREACHED = "last error"
# What it says where nobody listens.
_NOBODY = "Failed to connect to remote host"
_HOST = re.compile(r"(?:dns:(?://[^/]*/)?|ipv4:|ipv6:)?(?:\[([^]]+)\]|([^:/,]+)):(\d+)")
_REFUSED = "the server does not accept the client's certificate, or wants one"
# For a look at all addresses, less what it takes to find them.
_SECONDS = 1.0
# So that a server that goes just then is no mistake.
_LOOKS = 2


class TlsMistake:
    """For _retry.Caller: called with a failure's message, tells the mistake or returns work that finds it."""

    def __init__(self, target: str, tls: Tls | None) -> None:
        self._tls = tls
        found = _HOST.fullmatch(target)
        self._host = (found[1] or found[2]) if found else ""
        self._port = int(found[3]) if found else 0

    def __call__(self, message: str) -> Work | str | None:
        if self._tls is not None and _TOLD.search(message) and _PASSES not in message:
            return message
        # Of a name's addresses gRPC tells the last one's failure, which may be an outage: "localhost" is
        # ::1 too.
        suspect = _UNREACHED in message if self._tls else self._closed(message) or self._several(message)
        return Work(self._look) if suspect and self._host else None

    @staticmethod
    def _closed(message: str) -> bool:
        told = message.partition(_UNREACHED)[2]
        return any(words in told for words in (*_CLOSED, *map(os.strerror, _CLOSED_BY_THE_SYSTEM)))

    def _several(self, message: str) -> bool:
        """Whether nobody listens at an address of a name that may have further addresses."""
        return _NOBODY in message and not re.fullmatch(r"[0-9.]+|.*:.*", self._host)

    def _look(self) -> str | None:
        """Connects like gRPC, to find what gRPC does not tell. None if an address works, or if there is
        none."""
        mistake = None
        try:
            context = _context(self._tls)
            addresses = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        except (OSError, ValueError):
            return None
        end = time.monotonic() + _SECONDS
        for family, kind, protocol, _, address in addresses:
            for _ in range(_LOOKS):
                try:
                    with socket.socket(family, kind, protocol) as plain:
                        plain.settimeout(max(end - time.monotonic(), 0.001))
                        plain.connect(address)
                        told = self._shake_hands(context, plain)
                except OSError:
                    # An outage.
                    break
                if told is None:
                    return None
            else:
                mistake = mistake or f"{told} (of {':'.join(map(str, address[:2]))})"
        return mistake

    def _shake_hands(self, context: ssl.SSLContext, plain: socket.socket) -> str | None:
        name = self._tls.server_name if self._tls else None
        try:
            with context.wrap_socket(plain, server_hostname=name or self._host) as connection:
                if self._tls is not None:
                    try:
                        settings = connection.recv(1)
                    except TimeoutError:
                        return None
                    # In TLS 1.3 the server looks at the client's certificate last; gRPC's then closes
                    # the connection without a word.
                    return None if settings else _REFUSED
        except ssl.SSLError as error:
            reason = error.reason or ""
            if isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError)) or _PASSES in reason:
                raise
            if self._tls is not None:
                return f"the TLS handshake fails: {error}"
            if "ALERT" not in reason:
                return None
        return "tls is not set, but the server speaks TLS"


def _context(tls: Tls | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["h2"])
    if tls is None or tls.authorities is None:
        # gRPC's own authorities are not at hand: it has to say itself what it thinks of the server.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        context.load_verify_locations(tls.authorities)
    if tls is not None and tls.certificate is not None:
        # Without a question on the terminal.
        context.load_cert_chain(tls.certificate, tls.key, password="")
    return context
