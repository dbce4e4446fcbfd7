"""URLs of servers: a password arrives whole at the driver, or the URL is refused with the way out, and not shown."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote, unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict
from redis.asyncio import BlockingConnectionPool

from agentmem import ConfigError, Settings
from agentmem.core.redaction import SecretText, failure_reason, redact
from agentmem.settings.settings import load_settings
from agentmem.stores.neo4j.database import parse_address
from agentmem.stores.postgres.database import parse_url

PASSWORDS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0\n\r"), min_size=1, max_size=20)
NASTY = [
    "a/b",
    "a#b",
    "a@b",
    "a?b",
    "a%b",
    "a b",
    "a:b",
    "a[b]",
    "a&b=c",
    "é/\u20ac",
    "1/x",
    "5432/x@y",
    "%2F",
    "a\\b'\"",
]


def arrives(settings: Settings, password: str) -> bool:
    """Whether each of the three drivers is given exactly this password."""
    log, graph, session = settings.log_server_url, settings.graph_server_url, settings.session_server_url
    assert log is not None
    assert graph is not None
    assert session is not None
    found = {
        conninfo_to_dict(parse_url(log)[0])["password"],
        parse_address(graph).password,
        BlockingConnectionPool.from_url(session).connection_kwargs["password"],
    }
    return found == {password}


def stack(login: str, **more: object) -> Settings:
    urls = {
        "log_url": f"postgresql://{login}@host:5432/d",
        "graph_url": f"neo4j://{login}@host:7687",
        "session_url": f"redis://{login}@host:6379/0",
    }
    return load_settings(**urls, **more)  # type: ignore[arg-type]


@given(PASSWORDS)
@example("a/b@c#d?e%f g")
def test_an_encoded_password_arrives_whole(password: str) -> None:
    assert arrives(stack(f"ann:{quote(password, safe='')}"), password)


@given(PASSWORDS)
@example("a/b@c#d?e%f g")
def test_a_password_of_a_file_arrives_whole(password: str) -> None:
    path = Path("password")
    path.write_bytes(f"{password}\nsecond line\n".encode())
    files = dict.fromkeys(("log_password_file", "graph_password_file", "session_password_file"), path)
    assert arrives(stack("ann", **files), password)


@given(PASSWORDS)
@example("a+b=c&d")
@example("a/b")
def test_a_raw_password_arrives_as_it_is_written_or_is_refused_with_the_way_out(password: str) -> None:
    refused = ""
    try:
        settings = stack(f"ann:{password}")
    except ConfigError as error:
        refused = str(error)
    assert ("percent-encode" in refused and "password_file" in refused) or arrives(settings, unquote(password))


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("work"))


@pytest.mark.parametrize("password", [word for word in NASTY if word not in ("a:b", "a&b=c", "%2F", "a\\b'\"")])
@pytest.mark.parametrize("name", ["log_url", "graph_url", "session_url"])
def test_a_password_that_ends_the_address_early_is_refused(name: str, password: str) -> None:
    schemes = {"log_url": "postgresql", "graph_url": "neo4j", "session_url": "redis"}
    with pytest.raises(ConfigError) as caught:
        load_settings(**{name: f"{schemes[name]}://ann:{password}@host:99/d"})  # type: ignore[arg-type]
    assert f"setting {name}: " in str(caught.value)
    assert "percent-encode special characters of user and password" in str(caught.value)
    assert f"put the password into {name.replace('url', 'password_file')}" in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://h/d",
        "postgres://ann@h:5432/d?sslmode=require",
        "postgresql://ann:x@h1:1,h2:2/d",
        "postgresql:///d?host=/run/postgresql",
        "postgresql://%2Frun%2Fpostgresql/d",
        "postgresql://[::1]:5432/d",
        "postgresql://h/d?sslmode=verify-full&sslrootcert=/etc/ca.pem",
        "postgresql://h/d?sslrootcert=system",
        "postgresql://ann%40corp:p%2Fw@h/d",
        "postgresql://h",
    ],
)
def test_ordinary_urls_of_postgres_are_taken(url: str) -> None:
    settings = load_settings(log_url=url, graph_url="neo4j://h")
    assert (settings.log_server_url, settings.log_url) == (url, url)
    parse_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://h/d?sslrootcert=certs/ca.pem",
        "postgresql://h/d?passfile=.pgpass",
        "postgresql://h/d?sslkey=..%2Fkey",
    ],
)
def test_a_file_in_the_working_directory_is_not_taken_from_a_url(url: str) -> None:
    with pytest.raises(ConfigError, match=r"names a file in its option \w+; give the absolute path"):
        load_settings(log_url=url, graph_url="neo4j://h")


def test_the_address_of_a_url_goes_before_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOSTADDR", "203.0.113.9")
    given = {"postgresql://h:5432/d": "", "postgresql://h/d?hostaddr=127.0.0.1": "127.0.0.1", "postgresql:///d": None}
    assert {url: conninfo_to_dict(parse_url(url)[0]).get("hostaddr") for url in given} == given


@pytest.mark.parametrize(
    "url",
    ["postgresql://h:0/d", "postgresql://h:65536/d", "postgresql://h:x/d", "postgresql://h o/d", "postgresql://[h/d"],
)
def test_impossible_hosts_and_ports_are_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="setting log_url: "):
        load_settings(log_url=url, graph_url="neo4j://h")


def test_the_database_of_a_server_is_no_file() -> None:
    settings = load_settings(home="/data", log_url="postgresql://ann:hidden@h/d", graph_url="neo4j://h")
    assert settings.database == Path("/data/memory.db")


@pytest.mark.parametrize(
    "text, shown",
    [
        ("postgresql://ann:x@h/d", "postgresql://…"),
        ("bolt+s://ann:x@h", "bolt+s://…"),
        ("sqlite:///a", "sqlite:///a"),
        ("secret://x", "…"),
        ("command:python3 x --key y", "command:…"),
        (" command / x", "command:…"),
        ("none", "none"),
        ("openai:gpt/4:8b", "openai:gpt/4:8b"),
        ("comand:cat secret", "…"),
    ],
)
def test_what_may_be_secret_is_not_shown(text: str, shown: str) -> None:
    assert redact(text) == shown
    assert (SecretText(text), repr(SecretText(text)), f"{[SecretText(text)]}") == (text, repr(shown), f"[{shown!r}]")


@pytest.mark.parametrize(
    "error, reason",
    [
        (FileNotFoundError(2, "secret"), "No such file or directory"),
        (OSError("secret"), "OSError"),
        (ValueError("secret"), "ValueError"),
        (ConnectionRefusedError(111, "secret"), "Connection refused"),
    ],
)
def test_an_error_is_told_in_the_words_of_the_system(error: Exception, reason: str) -> None:
    assert failure_reason(error) == reason
    outer = RuntimeError("secret")
    outer.__cause__ = error
    assert failure_reason(outer) == (reason if " " in reason else "RuntimeError")
