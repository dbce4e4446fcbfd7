"""Neo4j Community: its jars from Maven Central, by `neo4j/pom.xml`, run by the machine's own Java."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
from pathlib import Path

import psutil

from tests.servers.downloads import CannotStart, cached_folder, run
from tests.servers.local import LocalServer, send_request

POM = Path(__file__).parent / "neo4j" / "pom.xml"
# a third of the time to start; slower in the long run
FAST_START_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
CLASSES = "classes.jsa"
MAX_ARCHIVING_SECONDS = 300.0
NEWER = "2026.08.1"  # the release that the tests use beside the one in the pom
INSTALLED = Path("/usr/lib/jvm")
HANDSHAKE = bytes.fromhex("6060b017 00000005 00080805 00000004 00000003")
CONFIGURATION = """\
server.bolt.listen_address=127.0.0.1:{port}
server.bolt.advertised_address=127.0.0.1:{port}
server.http.enabled=false
server.https.enabled=false
server.memory.pagecache.size=64m
db.tx_log.rotation.retention_policy=1 files
dbms.usage_report.enabled=false
dbms.security.auth_max_failed_attempts=0
"""


class Neo4j(LocalServer):
    """A Neo4j of the release in the pom, or of another one. 5.26 takes Java 17 or 21; later ones take 21 or newer."""

    kind = "neo4j"
    start_timeout = 120.0

    def __init__(self, release: str | None = None, java_options: tuple[str, ...] = FAST_START_OPTIONS) -> None:
        super().__init__()
        self._release = release or _pinned_release()
        self._java_options = java_options
        self._password = secrets.token_hex(16)
        self._jars = self._classes = Path()
        self._leaves: list[str] = []  # the option that makes it leave its classes behind
        self._program = ""

    @property
    def url(self) -> str:
        return f"bolt://neo4j:{self._password}@127.0.0.1:{self.port}"

    def fetch(self) -> None:
        self._program = _java() if self._is_5() else _find_java(21)
        self._jars = cached_folder(f"neo4j-{self._release}", self._copy_jars)
        # of the newer release few are started
        if self._java_options is FAST_START_OPTIONS and self._is_5() and not self._leaves:
            self._classes = cached_folder(f"neo4j-{self._release}-classes", self._load_classes)

    def _copy_jars(self, into: Path) -> None:
        if shutil.which("mvn") is None:
            raise CannotStart("Maven (mvn) is not on PATH; it fetches the jars of Neo4j")
        options = [f"-Dneo4j.version={self._release}", "-DincludeScope=runtime", f"-DoutputDirectory={into}"]
        run(["mvn", "-B", "-q", "-ntp", "-f", POM, "dependency:copy-dependencies", *options], cwd=into)

    def _load_classes(self, into: Path) -> None:
        """Let one server leave its loaded classes behind: with them the next ones start in two thirds of the time."""
        first = Neo4j(self._release)
        first._leaves = [f"-XX:ArchiveClassesAtExit={into / CLASSES}"]
        with first:
            process = psutil.Process(first.pid)
            process.terminate()
            process.wait(MAX_ARCHIVING_SECONDS)

    def prepare(self) -> None:
        (self.folder / "conf").mkdir()
        (self.folder / "conf" / "neo4j.conf").write_text(CONFIGURATION.format(port=self.port), encoding="ascii")
        places = [f"NEO4J_HOME={self.folder}", f"NEO4J_CONF={self.folder / 'conf'}"]
        admin = ["org.neo4j.cli.AdminTool", "dbms", "set-initial-password", self._password]
        run(["env", *places, *self._java(), *admin], cwd=self.folder)

    def command(self) -> list[str]:
        main = "CommunityEntryPoint" if self._is_5() else "Neo4jCommunity"
        places = [f"--home-dir={self.folder}", f"--config-dir={self.folder / 'conf'}"]
        java, *options = self._java()
        return [java, *self._leaves, *options, f"org.neo4j.server.{main}", *places]

    def close(self) -> None:
        self.kill()  # what it would write in ten seconds goes with its folder
        super().close()

    def _is_5(self) -> bool:
        return self._release.startswith("5.")

    def _java(self) -> list[str]:
        classes = self._classes / CLASSES  # a Java that cannot use them starts without
        shared = [f"-XX:SharedArchiveFile={classes}"] if classes.is_file() else []
        return [self._program, "-Xmx512m", *self._java_options, *shared, "-cp", f"{self._jars}/*"]

    def is_ready(self) -> bool:
        if not any(send_request(self.port, HANDSHAKE, 4)):
            return False
        import neo4j

        place, login = f"bolt://127.0.0.1:{self.port}", ("neo4j", self._password)
        try:  # it greets some seconds before its database is there
            with neo4j.GraphDatabase.driver(place, auth=login) as driver, driver.session() as session:
                return session.run("RETURN 1").single(strict=True).value() == 1
        except (neo4j.exceptions.DriverError, neo4j.exceptions.Neo4jError):
            return False


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def _find_java(least: int) -> str:
    """A Java of this version or newer, of those that this machine has."""
    programs = [_java(), *map(str, sorted(INSTALLED.glob("*/bin/java")))]
    found = {program: _version_of(program) for program in programs}
    for program, version in found.items():
        if version >= least:
            return program
    said = ", ".join(f"{program} ({version or 'does not run'})" for program, version in found.items())
    raise CannotStart(f"it needs Java {least} or newer; there is {said}")


def _version_of(program: str) -> int:
    """The number of a Java's version; 0 when it does not run."""
    try:
        asked = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(\d+)', asked.stderr)
    return int(found[1]) if found else 0


def _pinned_release() -> str:
    found = re.search(r"<neo4j\.version>(.+)</neo4j\.version>", POM.read_text(encoding="utf-8"))
    assert found is not None
    return found[1]
