"""Settings: where they come from, what they refuse and with which words, and what makes two of them equal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentmem import ConfigError, Settings
from agentmem.settings.settings import load_settings


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_technique_options_come_from_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTMEM_RECALL__VECTOR__DEADLINE", "0.1")
    assert float(load_settings().recall["vector"]["deadline"]) == 0.1


def test_a_variable_that_is_nearly_a_setting_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTMEM_PASSWORD", "somebody else's")
    load_settings()
    for slip, meant in {"EMBEDER": "embedder", "LOGURL": "log_url", "DECAI__BETA": "decay"}.items():
        with monkeypatch.context() as patch:
            patch.setenv(f"AGENTMEM_{slip}", "1")
            with pytest.raises(ConfigError, match=f"AGENTMEM_{slip}: no setting .*'{meant}' is one"):
                load_settings()


@pytest.mark.parametrize(
    "given, words",
    [
        ({"hoem": "x"}, ["hoem", "known ones", "home"]),
        ({"decay": {"half": 1}}, ["decay.half", "known ones: beta", "half_life_days"]),
        ({"audit_level": "loud"}, ["audit_level", "writes"]),
        ({"audit_days": 0}, ["audit_days", "1"]),
        ({"embedder": ""}, ["embedder", "vendor:model"]),
        ({"embedder": "../x:y"}, ["embedder", "vendor:model"]),
        ({"recall_profile": "fast"}, ["recall_profile", "best"]),
        ({"log_url": "mysql://x"}, ["log_url", "sqlite:///"]),
        ({"graph_url": "neo4j://x"}, ["graph_url", "log_url", "postgresql://"]),
        ({"graph_url": "neo4j://x", "log_url": "sqlite:///a"}, ["graph_url", "log_url", "postgresql://"]),
        ({"graph_url": "secret@host"}, ["graph_url", "neo4j://user@host", "got no URL"]),
        ({"session_url": "memcached://x"}, ["session_url", "redis://", "sqlite:///"]),
        ({"log_url": "sqlite:///a", "graph_url": "sqlite:///b"}, ["graph_url", "log_url", "same"]),
        ({"threads": 0}, ["threads"]),
        ({"model_timeout": 0}, ["model_timeout"]),
        ({"working_ttl": -1}, ["working_ttl"]),
        ({"clock": "now"}, ["clock"]),
    ],
)
def test_what_cannot_work_is_refused_with_its_name_and_what_it_may_be(given: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        load_settings(**given)
    for word in words:
        assert word in str(error.value)


def test_a_home_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="home must be a folder"):
        load_settings(home=tmp_path / "file")


def test_overrides_change_some_of_the_settings_given() -> None:
    given = load_settings(embedder="hash", audit_level="off")
    changed = load_settings(given, audit_level="reads")
    assert (changed.embedder, changed.audit_level) == ("hash", "reads")
    assert load_settings(given) is given
    with pytest.raises(ConfigError, match="audit_level"):
        load_settings(given, audit_level="loud")


def test_a_slash_is_as_good_as_a_colon() -> None:
    assert load_settings(embedder="openai/text-embedding-3-small").embedder == "openai:text-embedding-3-small"
    assert load_settings(embedder="local:a/b").embedder == "local:a/b"


def test_files_lie_in_the_home_or_where_a_url_says(tmp_path: Path) -> None:
    settings = load_settings(home=tmp_path)
    assert (settings.database, settings.session_file) == (tmp_path / "memory.db", tmp_path / "session.db")
    assert settings.model_folder == tmp_path / "models"
    assert load_settings(log_url="sqlite:////data/x.db").database == Path("/data/x.db")
    assert load_settings(graph_url="sqlite:///x.db").database == Path("x.db")
    assert load_settings(session_url="sqlite:///s.db").session_file == Path("s.db")
    assert load_settings(session_url="redis://h/0").session_file is None
    assert load_settings(session_url="redis://h/0").session_server_url == "redis://h/0"


def test_no_url_with_its_password_is_shown() -> None:
    settings = load_settings(session_url="redis://:hidden-word@h/0")
    assert "hidden-word" not in f"{settings!r} {settings}"
    assert "hidden-word" not in str(settings.public_values())


SERVERS = {"log_url": "postgresql://ann@h/d", "graph_url": "neo4j://neo4j@g:7687", "session_url": "redis://r:6379/0"}


def test_passwords_come_from_files(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("p@ss/w:rd\nsecond line\n")
    settings = load_settings(
        **SERVERS,
        log_password_file=tmp_path / "one",
        graph_password_file=tmp_path / "one",
        session_password_file=tmp_path / "one",
    )
    assert settings.log_server_url == "postgresql://ann:p%40ss%2Fw%3Ard@h/d"
    assert settings.graph_server_url == "neo4j://neo4j:p%40ss%2Fw%3Ard@g:7687"
    assert settings.session_server_url == "redis://:p%40ss%2Fw%3Ard@r:6379/0"
    assert "p%40ss" not in repr(settings)
    assert load_settings(**SERVERS).log_server_url == SERVERS["log_url"]


@pytest.mark.parametrize(
    "url, text, words",
    [
        ("postgresql://ann:x@h/d", "y", "already"),
        ("postgresql://ann@h/d", "", "empty"),
        ("postgresql://ann@h/d", None, "read"),
    ],
)
def test_a_password_file_that_cannot_serve_is_named(tmp_path: Path, url: str, text: str | None, words: str) -> None:
    if text is not None:
        (tmp_path / "one").write_text(text)
    settings = load_settings(**{**SERVERS, "log_url": url}, log_password_file=tmp_path / "one")
    with pytest.raises(ConfigError, match=f"log_password_file: .*{words}"):
        _ = settings.log_server_url


def test_recalls_are_limited_where_many_share_servers() -> None:
    assert load_settings().recalls_per_second == 0
    assert load_settings(**SERVERS).recalls_per_second == 50
    assert load_settings(**SERVERS, recall_rate=0).recalls_per_second == 0
    assert load_settings(recall_rate=3).recalls_per_second == 3


def test_the_digest_is_of_what_steers_results(tmp_path: Path) -> None:
    one = load_settings(home=tmp_path / "a", threads=1)
    assert one.fingerprint() == load_settings(home=tmp_path / "b", threads=4, base_url="http://x").fingerprint()
    assert one.fingerprint() != load_settings(recall={"vector": {"deadline": 0.1}}).fingerprint()
    assert not {"home", "base_url", "models", "clock"} & set(one.public_values())


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().embedder = "hash"  # type: ignore[misc]
