"""Neo4j Community: its jars from Maven Central, by `neo4j/pom.xml`, run by the machine's own Java."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from pathlib import Path

from tests.servers.downloads import CannotStart, kept, run
from tests.servers.local import LocalServer, ask

POM = Path(__file__).parent / "neo4j" / "pom.xml"
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")  # a third of the time to start; slower in the long run
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
    """A Neo4j of the version in the pom, or of another one. 5.26 takes Java 17 or 21; 2025 and later take Java 21."""

    kind = "neo4j"
    patience = 120.0

    def __init__(self, version: str | None = None, java_options: tuple[str, ...] = QUICK) -> None:
        super().__init__()
        self._version = version or _pinned()
        self._java_options = java_options
        self._password = secrets.token_hex(16)
        self._jars = Path()

    @property
    def url(self) -> str:
        return f"bolt://neo4j:{self._password}@127.0.0.1:{self.port}"

    def fetch(self) -> None:
        self._jars = kept(f"neo4j-{self._version}", self._copy_jars)

    def _copy_jars(self, into: Path) -> None:
        if shutil.which("mvn") is None:
            raise CannotStart("Maven (mvn) is not on PATH; it fetches the jars of Neo4j")
        options = [f"-Dneo4j.version={self._version}", "-DincludeScope=runtime", f"-DoutputDirectory={into}"]
        run(["mvn", "-B", "-q", "-ntp", "-f", POM, "dependency:copy-dependencies", *options], cwd=into)

    def prepare(self) -> None:
        (self.folder / "conf").mkdir()
        (self.folder / "conf" / "neo4j.conf").write_text(CONFIGURATION.format(port=self.port), encoding="ascii")
        places = [f"NEO4J_HOME={self.folder}", f"NEO4J_CONF={self.folder / 'conf'}"]
        admin = ["org.neo4j.cli.AdminTool", "dbms", "set-initial-password", self._password]
        run(["env", *places, *self._java(), *admin], cwd=self.folder)

    def command(self) -> list[str]:
        main = "CommunityEntryPoint" if self._version.startswith("5.") else "Neo4jCommunity"
        places = [f"--home-dir={self.folder}", f"--config-dir={self.folder / 'conf'}"]
        return [*self._java(), f"org.neo4j.server.{main}", *places]

    def close(self) -> None:
        self.kill()  # what it would write in ten seconds goes with its folder
        super().close()

    def _java(self) -> list[str]:
        home = os.environ.get("JAVA_HOME")
        return [f"{home}/bin/java" if home else "java", "-Xmx512m", *self._java_options, "-cp", f"{self._jars}/*"]

    def answers(self) -> bool:
        if not any(ask(self.port, HANDSHAKE, 4)):
            return False
        import neo4j

        place, login = f"bolt://127.0.0.1:{self.port}", ("neo4j", self._password)
        try:  # it greets some seconds before its database is there
            with neo4j.GraphDatabase.driver(place, auth=login) as driver, driver.session() as session:
                return session.run("RETURN 1").single(strict=True).value() == 1
        except (neo4j.exceptions.DriverError, neo4j.exceptions.Neo4jError):
            return False


def _pinned() -> str:
    found = re.search(r"<neo4j\.version>(.+)</neo4j\.version>", POM.read_text(encoding="utf-8"))
    assert found is not None
    return found[1]
