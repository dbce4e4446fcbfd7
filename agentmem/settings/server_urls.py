"""URLs of servers, checked so strictly that no part of a password can be taken for another part of the URL.

Each error says what is wrong in words of ours and quotes nothing, because any part of a URL may be part of a password.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, unquote, urlsplit

POSTGRES_SCHEMES = ("postgresql", "postgres")
NEO4J_SCHEMES = ("neo4j", "neo4j+s", "neo4j+ssc", "bolt", "bolt+s", "bolt+ssc")
REDIS_SCHEMES = ("redis", "rediss")
WEB_SCHEMES = ("http", "https")
ENCODING_HELP = (
    "percent-encode special characters of user and password: / is %2F, # is %23, @ is %40, ? is %3F, % is %25"
)
MAX_PORT = 65_535

_UNSAFE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]|%(?![0-9A-Fa-f]{2})")
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[\w.~%-]*)(?::(?P<port>[0-9]{1,5}))?")
_FILE_OPTIONS = frozenset(
    {  # options of libpq and redis-py that name a file
        "sslrootcert",
        "sslcert",
        "sslkey",
        "sslcrl",
        "sslcrldir",
        "passfile",
        "servicefile",
        "ssl_ca_certs",
        "ssl_ca_path",
        "ssl_certfile",
        "ssl_keyfile",
    }
)


@dataclass(frozen=True, slots=True)
class ServerUrl:
    """The parts of a URL, as they are written. `login` is `user:password`, None where the URL has no `@`."""

    scheme: str
    login: str | None = field(repr=False)
    hosts: str
    path_and_query: str = field(repr=False)  # path and query

    @property
    def without_login(self) -> str:
        """The URL without user and password."""
        return f"{self.scheme}://{self.hosts}{self.path_and_query}"


def split_url(url: str, schemes: Collection[str], example: str) -> ServerUrl:
    """Take the URL of a server apart. Raises ValueError where a part could be mistaken for another."""
    scheme, there, address = url.partition("://")
    if not there or scheme not in schemes:
        raise ValueError(f"must be like {example}, got {'another kind of URL' if there else 'no URL'}")
    authority, rest = re.fullmatch(r"([^/?#]*)(.*)", address, re.DOTALL).groups()  # type: ignore[union-attr]
    login, at, hosts = authority.rpartition("@")
    if _UNSAFE.search(url) or "#" in rest or "@" in rest or any(sign in login for sign in "@[]"):
        raise ValueError(f"cannot be read without doubt; {ENCODING_HELP}")
    for host in hosts.split(","):
        found = _HOST.fullmatch(host)
        if found is None or not 0 < int(found["port"] or 1) <= MAX_PORT:
            raise ValueError(f"has no valid host and port; write it like {example}, and {ENCODING_HELP}")
    try:
        urlsplit(url)  # as drivers read it
    except ValueError:
        raise ValueError(f"cannot be read as a URL; {ENCODING_HELP}") from None
    return ServerUrl(scheme, login if at else None, hosts, rest)


def check_server_url(url: str, schemes: Collection[str], example: str) -> None:
    """Check the URL of a database. Raises ValueError, also for an option with a file in the working directory."""
    query = split_url(url, schemes, example).path_and_query.partition("?")[2]
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in _FILE_OPTIONS and value not in ("", "system") and not value.startswith("/"):
            raise ValueError(f"names a file in its option {name}; give the absolute path")


def check_web_url(url: str) -> None:
    """Check the address of a service. Raises ValueError, also for a query, to which no path can be added."""
    example = "https://host:443/v1"
    found = split_url(url, WEB_SCHEMES, example)
    if "?" in found.path_and_query:
        raise ValueError(f"must not have a query, because paths are added to it; write it like {example}")
    if not found.hosts or "," in found.hosts:
        raise ValueError(f"names no host; write it like {example}")


def parse_basic_login(url: str) -> tuple[str, str] | None:
    """User and password of a web address, decoded; None where it has none."""
    login = split_url(url, WEB_SCHEMES, "https://host/v1").login
    if login is None:
        return None
    user, _, password = login.partition(":")
    return unquote(user), unquote(password)


def add_password(url: str, password: str) -> str:
    """The URL with a password for its user. Raises ValueError where it has one already."""
    scheme, _, address = url.partition("://")
    authority, rest = re.fullmatch(r"([^/?#]*)(.*)", address, re.DOTALL).groups()  # type: ignore[union-attr]
    user, _, hosts = authority.rpartition("@")
    if ":" in user:
        raise ValueError("the URL has a password already; leave it out there")
    return f"{scheme}://{user}:{quote(password, safe='')}@{hosts}{rest}"
