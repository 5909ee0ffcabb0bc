"""Addresses: where the server listens, by which names it may be called, and who calls."""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address, ip_network

from unire.errors import UnireError

__all__ = ["AllowedHosts", "bind", "client_of"]

HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:/@\s]+)(?::[0-9]{1,5})?", re.IGNORECASE)
"""The value of a Host header: a name or an address, and perhaps a port."""
IPV6_CLIENT_BITS = 64
"""A client usually has all addresses of such a network."""


def bind(host: str, port: int) -> socket.socket:
    """Open a socket at a free address."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
            0
        ]
        # asyncio sets TCP_NODELAY only on sockets with an explicit protocol; others wait for 40 ms
        listening = socket.socket(family, kind, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(2048)
        return listening
    except (OSError, UnicodeError) as error:
        other = (
            "port=..." if isinstance(error, OSError) and error.errno in (errno.EADDRINUSE, errno.EACCES) else "host=..."
        )
        reason = getattr(error, "strerror", None) or error
        raise UnireError(f"cannot listen on {host}, port {port}: {reason}; try another {other}") from None


class AllowedHosts:
    """The names by which clients may address the server, as they are in the Host header of a request.

    The check stops DNS rebinding: a web page whose own host name is made to point to this server could read its
    answers.

    Args:
        names: Names or addresses without port, as a list or separated by commas; `*` allows every name. Loopback names
            are always allowed: `localhost`, `127.0.0.1` and `[::1]`.
    """

    def __init__(self, names: str | Iterable[str] = ()) -> None:
        self.names = frozenset(_parse_name(name) for name in (names.split(",") if isinstance(names, str) else names))

    def allow(self, host: str) -> bool:
        """Whether a Host header names this server, with any port."""
        if "*" in self.names:
            return True
        found = HOST.fullmatch(host)
        return found is not None and (found[1].lower() in self.names or _is_loopback(found[1].lower()))

    def check_address(self, address: str) -> None:
        """Raise an error if other machines can reach the server at `address`, but only by loopback names."""
        if not self.names and not _is_loopback(address.partition("%")[0]):
            raise UnireError(
                f"other machines can reach the server at {address}; say by which host names they do with "
                'allowed_hosts=..., for example allowed_hosts="example.org", or allow all with allowed_hosts="*"'
            )


def _parse_name(name: str) -> str:
    host = name.strip().lower()
    if host.count(":") > 1 and not host.startswith("["):
        host = f"[{host}]"
    found = HOST.fullmatch(host)
    if found is None or found[1] != host:
        raise UnireError(f"{name!r} is not a host name; give allowed_hosts=... names such as example.org, without port")
    return host


def _is_loopback(name: str) -> bool:
    try:
        return name == "localhost" or ip_address(name.strip("[]")).is_loopback
    except ValueError:  # a name
        return False


def client_of(address: str) -> str:
    """Return the client that an IP address belongs to: the address itself, or its network in IPv6."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:  # not an IP socket
        return address
    if isinstance(ip, IPv6Address):
        if ip.ipv4_mapped:
            return str(ip.ipv4_mapped)
        return str(ip_network((ip, IPV6_CLIENT_BITS), strict=False))
    return address
