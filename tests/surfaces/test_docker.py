"""The container files, as far as they can be tried without an engine: real servers take the settings that they give."""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
import yaml
from click.testing import CliRunner

from agentmem.cli.main import cli_group
from agentmem.settings.settings import load_settings
from agentmem.stores.postgres import migrate
from agentmem.stores.postgres.diagnostics import diagnose
from tests.conformance.conftest import database_url
from tests.servers.local import LocalServer, free_port
from tests.servers.neo4j import Neo4j
from tests.servers.postgres import FOLDERS, Postgres
from tests.servers.redis import Redis

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
SERVERS = ("postgres", "neo4j", "redis")
DOCKERFILE = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
SECRETS: dict[str, dict[str, str]] = COMPOSE["secrets"]
VARIABLE = re.compile(r"(?<!\$)\$\{(\w+)(:?[-?])?([^}]*)\}")


def example() -> dict[str, str]:
    """The variables of .env.example, with those that are only suggested."""
    lines = (DOCKER / ".env.example").read_text(encoding="utf-8").splitlines()
    pairs = [line.removeprefix("# ").partition("=") for line in lines if re.match(r"(# )?[A-Z0-9_]+=", line)]
    return {name: value for name, _, value in pairs}


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield from texts(key)
            yield from texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from texts(one)
    else:
        yield str(value)


def filled(text: str) -> str:
    """What compose makes of a text without a .env; it takes `$$` for `$`."""
    return VARIABLE.sub(lambda match: match[3], text).replace("$$", "$")


def command(service: str) -> list[str]:
    return [filled(str(word)) for word in SERVICES[service]["command"]]


def environment(service: str, secrets: Path | None = None) -> dict[str, str]:
    """The variables of a service, with its secrets in a folder of this machine."""
    given = {name: filled(str(value)) for name, value in SERVICES[service]["environment"].items()}
    return {name: value.replace("/run/secrets", str(secrets)) if secrets else value for name, value in given.items()}


def run(words: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60)


# -- the compose file


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_pinned_watched_and_bounded(name: str) -> None:
    service = SERVICES[name]
    assert "build" in service or re.search(r":\d+\.\d+\.\d+-[a-z0-9]+$", service["image"])
    assert service["restart"] in {"unless-stopped", "on-failure"}
    assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory"}
    if name == "migrate":  # it does its work and ends; the worker waits for that
        assert service["healthcheck"] == {"disable": True}
        assert SERVICES["worker"]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"
    else:
        assert {"test", "interval", "timeout", "retries"} <= set(service["healthcheck"])


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_has_no_more_rights_than_it_needs(name: str) -> None:
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "build" in service or re.fullmatch(r"[1-9]\d*:[1-9]\d*", service["user"])
    assert service.get("read_only", False) is (name != "neo4j")
    assert not {"privileged", "network_mode", "pid", "cap_add", "devices"} & set(service)


def test_ports_are_open_to_this_machine_alone() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(ports) == len(SERVERS)
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_what_must_be_kept_is_in_named_volumes() -> None:
    mounts = [mount.split(":") for service in SERVICES.values() for mount in service.get("volumes", [])]
    assert {source for source, *_ in mounts if not source.startswith(".")} == set(COMPOSE["volumes"])
    assert {"/var/lib/postgresql/data", "/data", "/logs"} <= {mount[1] for mount in mounts}
    assert [mount for mount in mounts if mount[0].startswith(".") and not (DOCKER / mount[0]).is_file()] == []


def test_the_ports_alone_are_variables() -> None:
    found = [match for text in texts(COMPOSE) for match in VARIABLE.finditer(text)]
    assert {match[1] for match in found} == set(example()) == {"POSTGRES_PORT", "NEO4J_PORT", "REDIS_PORT"}
    assert {match[3] for match in found} == {"5432", "7687", "6379"}


def test_every_password_is_a_file_that_its_service_is_given() -> None:
    for name, service in SERVICES.items():
        words = " ".join(
            texts([service.get("environment", {}), service.get("command", []), service.get("healthcheck")])
        )
        assert set(re.findall(r"/run/secrets/([\w-]+)", words)) <= set(service.get("secrets", [])), name
        for variable, value in service.get("environment", {}).items():
            if re.search(r"PASSWORD|AUTH|SECRET|TOKEN", variable):
                assert (variable.endswith("_FILE"), str(value).startswith("/run/secrets/")) == (True, True)
            assert not re.search(r"://[^/@]*:[^/@]*@", str(value)), "a password in a URL"
    assert {name for service in SERVICES.values() for name in service.get("secrets", [])} == set(SECRETS)
    assert {name: each["file"] for name, each in SECRETS.items()} == {name: f"./secrets/{name}" for name in SECRETS}
    assert (DOCKER / ".gitignore").read_text(encoding="utf-8").split() == [".env", "secrets/"]


def test_the_owner_of_the_tables_logs_in_for_migrations_alone() -> None:
    users = {name: str(SERVICES[name]["environment"]["AGENTMEM_LOG_URL"]) for name in ("migrate", "worker")}
    assert users == {
        "migrate": "postgresql://agentmem@postgres:5432/agentmem",
        "worker": "postgresql://worker@postgres:5432/agentmem",
    }
    given = {name for name, service in SERVICES.items() if "postgres-owner" in service.get("secrets", [])}
    assert given == {"postgres", "migrate"}


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What make-secrets.sh makes."""
    folder = tmp_path_factory.mktemp("docker")
    shutil.copy(DOCKER / "make-secrets.sh", folder)
    done = run([str(folder / "make-secrets.sh")])
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "secrets"


def read_secret(secrets: Path, name: str) -> str:
    return (secrets / name).read_text(encoding="ascii").strip()


def test_the_script_makes_every_secret_once(secrets: Path) -> None:
    made = {path.name: path.read_text(encoding="ascii") for path in secrets.iterdir()}
    assert set(made) == set(SECRETS)
    assert made["neo4j-auth"] == f"neo4j/{made['neo4j-password']}"
    assert all(re.fullmatch(r"(neo4j/)?[0-9a-f]{48}\n", text) for text in made.values())
    assert len(set(made.values())) == len(made)
    assert (secrets.stat().st_mode & 0o777, (secrets / "redis-password").stat().st_mode & 0o777) == (0o700, 0o444)
    assert run([str(secrets.parent / "make-secrets.sh")]).returncode == 0
    assert {path.name: path.read_text(encoding="ascii") for path in secrets.iterdir()} == made


def test_the_worker_is_given_all_three_servers(monkeypatch: pytest.MonkeyPatch, secrets: Path) -> None:
    for name, value in environment("worker", secrets).items():
        monkeypatch.setenv(name, value)
    settings = load_settings()
    assert [settings.log_server_url, settings.graph_server_url, settings.session_server_url] == [
        f"postgresql://worker:{read_secret(secrets, 'postgres-worker')}@postgres:5432/agentmem",
        f"bolt://neo4j:{read_secret(secrets, 'neo4j-password')}@neo4j:7687",
        f"redis://:{read_secret(secrets, 'redis-password')}@redis:6379/0",
    ]


@pytest.mark.parametrize("name", ["worker", "migrate"])
def test_the_program_takes_the_commands(name: str) -> None:
    # what it does not know is refused before it helps
    asked = CliRunner().invoke(cli_group, [*command(name), "--help"])
    assert asked.exit_code == 0, asked.output
    words = [word for word in command(name) if word.isalpha()][: 2 if name == "migrate" else 1]
    assert f"Usage: agentmem {' '.join(words)} [OPTIONS]" in asked.output


# -- the servers' settings


def test_the_images_are_what_the_tests_run_on(postgres_url: str, redis_url: str) -> None:
    tags = {name: SERVICES[name]["image"].partition(":")[2] for name in SERVERS}
    pinned = re.search(r"<neo4j.version>(.+)</neo4j.version>", (ROOT / "tests/servers/neo4j/pom.xml").read_text())
    assert pinned is not None
    assert tags["neo4j"] == f"{pinned[1]}-community"
    vector, _, major = tags["postgres"].partition("-pg")
    assert int(major) in FOLDERS
    with psycopg.connect(postgres_url) as db:
        offered = db.execute("SELECT default_version FROM pg_available_extensions WHERE name = 'vector'").fetchone()
    assert offered == (vector,)
    with redis.Redis.from_url(redis_url) as cache:
        assert str(cache.info("server")["redis_version"]).split(".")[0] == tags["redis"].split(".")[0]


class ComposedRedis(Redis):
    """A Redis that is started as the compose file says, on a port of its own."""

    def __init__(self, secrets: Path) -> None:
        super().__init__()
        self._secrets = secrets

    def command(self) -> list[str]:
        program, (shell, _, script) = super().command()[0], command("redis")
        assert (shell, script.count("redis-server - ")) == ("sh", 1)
        own = f"{program} - --port {self.port} --bind 127.0.0.1 "
        return ["sh", "-c", script.replace("redis-server - ", own).replace("/run/secrets", str(self._secrets))]


def test_redis_takes_its_options_and_its_check(redis_url: str, secrets: Path, tmp_path: Path) -> None:
    with ComposedRedis(secrets) as server:
        password = read_secret(secrets, "redis-password")
        with redis.Redis(port=server.port, password=password) as cache:
            settings = {
                name: cache.config_get(name)[name] for name in ("maxmemory", "maxmemory-policy", "save", "appendonly")
            }
        with redis.Redis(port=server.port) as stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()
        listed = run(["ps", "-eo", "args"]).stdout
        asked = filled(SERVICES["redis"]["healthcheck"]["test"][1])
        path = f"{Path(Redis.command(server)[0]).parent}:{os.environ['PATH']}"
        (tmp_path / "redis-password").write_text("other", encoding="ascii")
        codes = [
            run(
                [
                    "sh",
                    "-c",
                    asked.replace("redis-cli", f"redis-cli -p {server.port}").replace("/run/secrets", str(folder)),
                ],
                **server.environment(),
                PATH=path,
            ).returncode
            for folder in (secrets, tmp_path)
        ]
    assert settings == {
        "maxmemory": str(512 * 1024 * 1024),
        "maxmemory-policy": "allkeys-lru",
        "save": "",
        "appendonly": "no",
    }
    assert codes == [0, 1]
    assert password not in listed


@pytest.fixture(scope="module")
def composed_postgres(postgres_url: str, secrets: Path) -> Iterator[LocalServer]:
    """A Postgres of the image's major with the settings of the command, after the script for a new volume."""
    words = command("postgres")
    assert words[0] == "postgres"
    settings = dict(word.removeprefix("-c").split("=", 1) for word in words[1:])
    major = int(SERVICES["postgres"]["image"].rpartition("-pg")[2])
    with Postgres(major, settings) as server:
        place = psycopg.conninfo.conninfo_to_dict(server.url)
        login = {"PGHOST": "127.0.0.1", "PGPORT": str(place["port"]), "PGPASSWORD": str(place["password"])}
        path = f"{Path(server.command()[0]).parent}:{os.environ['PATH']}"
        done = run([str(DOCKER / "postgres-init.sh")], **login, PATH=path, SECRETS=str(secrets))
        assert done.returncode == 0, done.stderr
        yield server


def login_of(service: str, server: LocalServer, secrets: Path) -> str:
    """A service's URL of its log, with its password, and with this server in place of its name."""
    given = environment(service, secrets)
    password = Path(given["AGENTMEM_LOG_PASSWORD_FILE"]).read_text(encoding="ascii").strip()
    return given["AGENTMEM_LOG_URL"].replace("@postgres:5432/", f":{password}@127.0.0.1:{server.port}/")


def test_postgres_takes_its_settings_and_its_check(composed_postgres: LocalServer) -> None:
    with psycopg.connect(composed_postgres.url) as db:
        shown = {
            name: db.execute("SELECT current_setting(%s)", (name,)).fetchone()
            for name in ("max_connections", "shared_buffers", "work_mem", "max_wal_size", "log_parameter_max_length")
        }
    assert shown == {
        "max_connections": ("200",),
        "shared_buffers": ("512MB",),
        "work_mem": ("16MB",),
        "max_wal_size": ("4GB",),
        "log_parameter_max_length": ("0",),
    }
    _, program, *words = SERVICES["postgres"]["healthcheck"]["test"]
    ready = [str(Path(composed_postgres.command()[0]).parent / program), *words, "-p"]
    assert run([*ready, str(composed_postgres.port)]).returncode == 0
    assert run([*ready, str(free_port())]).returncode == 2


async def test_a_new_volume_can_be_migrated_and_has_nothing_to_complain_of(
    composed_postgres: LocalServer, secrets: Path
) -> None:
    health = [sys.executable, str(DOCKER / "health.py")]
    url = login_of("worker", composed_postgres, secrets)
    assert "run: agentmem admin migrate" in run(health, AGENTMEM_LOG_URL=url).stderr
    assert await migrate(login_of("migrate", composed_postgres, secrets), datetime.now(UTC)) > 0
    findings = (await diagnose(url, datetime.now(UTC))).findings
    assert [finding for finding in findings if finding.level != "ok"] == []
    assert "worker is bound by row-level security" in [finding.detail for finding in findings]
    assert run(health, AGENTMEM_LOG_URL=url).returncode == 0
    with psycopg.connect(database_url(composed_postgres.url, "agentmem")) as db:
        owners = db.execute("SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'public'").fetchall()
    assert owners == [("agentmem",)]


def test_the_worker_is_not_well_without_its_log() -> None:
    health = [sys.executable, str(DOCKER / "health.py")]
    away = run(health, AGENTMEM_LOG_URL=f"postgresql://worker:aVeryL0ngWord@127.0.0.1:{free_port()}/agentmem")
    assert away.returncode == 1
    assert "cannot be used" in away.stderr
    assert "aVeryL0ngWord" not in away.stderr
    assert run(health, AGENTMEM_LOG_URL="").returncode == 0  # an embedded one


def test_the_worker_is_not_well_without_its_beat(tmp_path: Path) -> None:
    kind, _, script, beat, seconds = SERVICES["worker"]["healthcheck"]["test"]
    assert (kind, beat) == ("CMD", command("worker")[-1])
    assert beat.startswith(f"{SERVICES['worker']['tmpfs'][0]}/")
    file = tmp_path / "beat"
    check = [sys.executable, str(DOCKER / Path(script).name), str(file), seconds]
    assert "never touched" in run(check, AGENTMEM_LOG_URL="").stderr
    file.touch()
    assert run(check, AGENTMEM_LOG_URL="").returncode == 0
    os.utime(file, (1, 1))
    late = run(check, AGENTMEM_LOG_URL="")
    assert (late.returncode, "the worker hangs" in late.stderr) == (1, True)


def test_neo4j_takes_its_settings(neo4j_url: str, tmp_path: Path) -> None:
    names = [name for name in SERVICES["neo4j"]["environment"] if name != "NEO4J_AUTH_FILE"]
    # As the image reads them: two underscores stand for one, and one for a dot.
    settings = [name.removeprefix("NEO4J_").replace("__", "\0").replace("_", ".").replace("\0", "_") for name in names]
    assert "server.memory.heap.max_size" in settings
    (tmp_path / "conf").mkdir()
    configuration = tmp_path / "conf" / "neo4j.conf"
    lines = [f"{setting}={environment('neo4j')[name]}\n" for setting, name in zip(settings, names, strict=True)]
    server = Neo4j()
    server.fetch()
    java = [*server._java(), "org.neo4j.server.startup.Neo4jAdminCommand", "server", "validate-config"]
    for extra, code in (("", 0), ("server.memory.heap.most=2G\n", 78)):
        configuration.write_text("".join(lines) + extra, encoding="ascii")
        done = run(java, NEO4J_HOME=str(tmp_path), NEO4J_CONF=str(configuration.parent))
        assert (done.returncode, "No issues found" in done.stdout) == (code, code == 0), done.stdout + done.stderr


def test_the_check_of_neo4j_hands_over_the_password(tmp_path: Path, secrets: Path) -> None:
    kind, check = SERVICES["neo4j"]["healthcheck"]["test"]
    assert kind == "CMD-SHELL"
    shell = tmp_path / "cypher-shell"  # the image's own is no part of the jars; this one shows what it is given
    shell.write_text('#!/bin/sh\necho "$NEO4J_PASSWORD: $*"\n', encoding="ascii")
    shell.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = run(["sh", "-c", filled(check).replace("/run/secrets", str(secrets))], PATH=path)
    assert done.stdout == f"{read_secret(secrets, 'neo4j-password')}: -a bolt://127.0.0.1:7687 -u neo4j RETURN 1\n"


# -- the image


def test_the_dockerfile_passes_its_linter() -> None:
    linter = Path(sys.executable).parent / "hadolint"
    done = run([str(linter), "--failure-threshold", "style", str(DOCKER / "Dockerfile")])
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_is_small_unprivileged_and_watched() -> None:
    stages = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert len(stages) == 2
    assert len(set(stages)) == 1
    assert re.fullmatch(r"python:\d+\.\d+\.\d+-slim-bookworm", stages[0])
    final = DOCKERFILE.rpartition("\nFROM ")[2]
    assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", final, re.MULTILINE)
    assert "pip" not in final
    assert re.search(r"^HEALTHCHECK .*health\.py", final, re.MULTILINE)
    assert SERVICES["worker"]["healthcheck"]["test"][2] in final
    assert re.search(r"^ENTRYPOINT \[\"agentmem\"\]$", final, re.MULTILINE)
    assert not re.search(r"PASSWORD|SECRET|TOKEN", DOCKERFILE)


def test_the_image_is_made_of_what_the_project_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (extras,) = re.findall(r"^ARG EXTRAS=(\S+)", DOCKERFILE, re.MULTILINE)
    assert {"local", "neo4j", "postgres", "redis"} <= set(extras.split(",")) <= set(project["optional-dependencies"])
    assert "python -m packages.minilm.build_wheel " in DOCKERFILE
    assert "agentmem" in project["scripts"]


def test_the_wheel_is_built_from_what_the_image_is_given(tmp_path: Path) -> None:
    rules = (DOCKER / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in rules
    let_in = [rule.removeprefix("!") for rule in rules if rule.startswith("!")]
    build = DOCKERFILE.rpartition("\nFROM ")[0]
    given = [line.split()[1:-1] for line in build.splitlines() if line.startswith("COPY ")]
    for name in [name for names in given for name in names]:
        assert any(fnmatch.fnmatch(name, rule) for rule in let_in), f"{name} is left out by .dockerignore"
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / name)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--wheel-dir"]
    done = run([*pip, str(tmp_path / "wheels"), str(tmp_path)])
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "wheels").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"agentmem/cli/main.py", "agentmem/_schema/postgres/0001_initial.sql"} <= set(names)
