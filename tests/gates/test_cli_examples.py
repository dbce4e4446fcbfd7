"""The examples of docs/cli.md run as printed, in the environment that the page's install line makes.

Each section starts from a copy of one prepared memory. The ids of the page stand for records of that memory.
"""

from __future__ import annotations

import gzip
import json
import re
import selectors
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentmem import AgentMemory
from tests.flows.test_reviews import ask
from tests.gates.installed import FENCE, ROOT, Installed, read_blocks
from tests.gates.test_documented_commands import MCP_CLIENT
from tests.unit.chat_exports import CHATGPT

PAGE = "docs/cli.md"
ID = re.compile(r"\b019[0-9a-f]{5}-[0-9a-f]{4}-7[0-9a-f-]{21}\b")
# Programs that run until they are stopped, and what they print once they work.
SERVICES = {
    "agentmem serve": "serving on ",
    "agentmem admin sync --follow": "projecting",
    "agentmem worker": "worker",
}
TURNS = [
    {"role": "user", "content": "I'm allergic to peanuts.", "conversation_id": "trip", "turn_id": "trip-1"},
    {"role": "user", "content": "The tickets are booked.", "conversation_id": "trip", "turn_id": "trip-2"},
]
# What must be done before an example makes sense.
BEFORE = {
    "admin restore-backup": "agentmem admin backup memory-2026-05-07.db",
    "admin erase-again": "agentmem admin erasures --out erasures.jsonl",
    "restore": "agentmem forget trip-2",
    "schedules take": "agentmem schedules add summary --every 1; sleep 2",
    "schedules pause": "agentmem schedules add summary --every 60",
    "schedules resume": "agentmem schedules add summary --every 60; agentmem schedules pause summary",
    "schedules remove": "agentmem schedules add summary --every 60",
    "add": "rm -r .agentmem; git init -q; git -c user.name=A -c user.email=a@b commit -q --allow-empty -m 'Tidy up'",
    "import": "agentmem export alice.jsonl --user alice; rm -r .agentmem",
}
# What a person types when a command asks.
ANSWERS = {"erase": "y\n"}


@dataclass(frozen=True)
class Prepared:
    """A folder with a memory, and the ids that stand for those of each section, in the order of the page."""

    folder: Path
    ids: dict[str, list[str]]


def read_sections() -> dict[str, str]:
    """The examples by command."""
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    found = {}
    for section in re.split(r"^##+ ", text, flags=re.MULTILINE):
        if (name := re.match(r"`agentmem ([a-z]+(?: [a-z-]+)?)", section)) and (block := FENCE.search(section)):
            found[name[1]] = block[2]
    return found


SECTIONS = read_sections()


def fill(memory: AgentMemory) -> dict[str, list[str]]:
    """Store what the examples speak of; the ids by section."""
    memory.store_turns(TURNS)
    facts = [memory.learn_fact(claim).id for claim in ("Mira sings in Oslo.", "Mira sings in Oslo, in Norway.")]
    goals = [memory.add_goal(text).id for text in ("Pack", "Book a flight")]
    procedures = [
        memory.procedural.stage_candidate(f"Always answer in {language}", trigger="when I write").id
        for language in ("French", "German")
    ]
    memory.procedural.accept_procedure(procedures[1])
    mira, oslo, _ = (memory.upsert_entity({"name": name}).id for name in ("Mira", "Oslo", "Ben"))
    memory.semantic.relate(mira, "LOCATED_IN", oslo)
    memory.goals.block(goals[1], by=goals[0])
    open_goals = [memory.add_goal(text).id for text in ("Water the plants", "Buy a watering can")]
    review = ask(memory, "doubtful", "Does Mira move?", proposed={"claim": "Mira moves", "source_turn_ids": ["trip-1"]})
    project = memory.scoped(channel="my-project").learn_fact("The build needs Python 3.11.")
    operation = memory.learn_fact("Mira plays chess.").operation_id
    return {
        "correct": facts[:1],
        "curate touch": facts[:1],
        "curate merge": facts,
        "curate promote": [project.id],
        "facts": facts[:1],
        "goals complete": goals[:1],
        "goals abandon": goals[:1],
        "goals block": open_goals,
        "goals unblock": goals[1:],
        "procedures accept": procedures[:1],
        "procedures retire": procedures[1:],
        "reviews resolve": [review.id],
        "show": facts[:1],
        "undo": [operation],
    }


@pytest.fixture(scope="module")
def environment(installed: Callable[[str], Installed]) -> Installed:
    """What the install line of the page gives."""
    (line,) = [block.strip() for block in read_blocks(PAGE, "sh") if block.startswith("pip install")]
    return installed(line)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """A memory of `default` with a record of each kind, one of `alice`, and files to import."""
    folder = tmp_path_factory.mktemp("prepared")
    home = folder / ".agentmem"
    with AgentMemory("alice", home=home, embedder="hash") as memory:
        memory.store_turns(TURNS)
    with AgentMemory("default", home=home, embedder="hash") as memory:
        ids = fill(memory)
        memory.consolidate()
    lines = "\n".join(json.dumps({**turn, "turn_id": None}) for turn in TURNS)
    (folder / "conversation.jsonl").write_text(lines, encoding="utf-8")
    (folder / "turns.jsonl.gz").write_bytes(gzip.compress(f"{lines}\nno JSON\n".encode()))
    (folder / "chats").mkdir()
    (folder / "chats" / "one.json").write_text('[{"role": "user", "content": "Hello."}]', encoding="utf-8")
    (folder / "conversations.json").write_text(json.dumps(CHATGPT), encoding="utf-8")
    with zipfile.ZipFile(folder / "chatgpt-export.zip", "w") as archive:
        archive.write(folder / "conversations.json", "conversations.json")
    client = folder / "claude"
    client.write_text(MCP_CLIENT, encoding="utf-8")
    client.chmod(0o755)
    return Prepared(folder, ids)


def test_every_command_has_an_example() -> None:
    headings = re.findall(
        r"^##+ `agentmem ([a-z]+(?: [a-z-]+)?)", (ROOT / PAGE).read_text(encoding="utf-8"), re.MULTILINE
    )
    groups = {name.split()[0] for name in SECTIONS if " " in name}
    assert {name for name in headings if name not in groups} <= set(SECTIONS)
    assert len(SECTIONS) > 55


def fill_in(script: str, ids: list[str], home: Path) -> str:
    """The examples with ids of the prepared memory, and folders that this user may write."""
    given = iter(ids)
    names = {printed: next(given) for printed in dict.fromkeys(ID.findall(script))}
    for printed, real in names.items():
        script = script.replace(printed, real)
    return script.replace("/run/agentmem", str(home)).replace("/srv/agent/memory", f"{home}/.agentmem")


def split_services(script: str) -> Iterator[tuple[str, str]]:
    """Pairs of a service, if any, and of the lines to run meanwhile."""
    service, lines = "", list[str]()
    for line in script.replace("\\\n", " ").splitlines():
        if any(line.startswith(name) and "--once" not in line for name in SERVICES):
            yield service, "\n".join(lines)
            service, lines = line, []
        else:
            lines.append(line)
    yield service, "\n".join(lines)


def wait_for_line(service: subprocess.Popen[str], expected: str) -> None:
    """Read what a service prints until it says that it works."""
    assert service.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(service.stdout, selectors.EVENT_READ)
        while selector.select(timeout=60):
            line = service.stdout.readline()
            assert line, f"{service.args} ended"
            if expected in line:
                return
    raise AssertionError(f"{service.args} did not say: {expected}")


def run_beside(environment: Installed, line: str, script: str, home: Path, variables: dict[str, str]) -> None:
    """Start a service, run lines while it works, and stop it as a supervisor does."""
    command, environ = ["bash", "-c", f"exec {line}"], environment.environ(home, **variables)
    with subprocess.Popen(
        command, cwd=home, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=1, text=True
    ) as service:
        try:
            wait_for_line(service, next(said for name, said in SERVICES.items() if line.startswith(name)))
            if script.strip():
                environment.shell(script, home, **variables)
            service.terminate()
            assert service.wait(timeout=30) == 0, line
        finally:
            service.kill()


@pytest.mark.nightly  # a hundred programs, a second each
@pytest.mark.parametrize("name", SECTIONS)
def test_examples_run_as_printed(name: str, environment: Installed, prepared: Prepared, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(prepared.folder, home)
    variables = {
        "AGENTMEM_EMBEDDER": "hash",
        "ANTHROPIC_API_KEY": "not used: nothing waits to be read",
        "PATH": f"{home}:{environment.environ(home)['PATH']}",
    }
    ids = prepared.ids.get(name, [])
    if name == "keys revoke":
        created = environment.shell("agentmem keys create --user alice --json", home, **variables)
        ids = [json.loads(created)["key"]["id"]]
    environment.shell(BEFORE.get(name, ":"), home, **variables)
    for service, script in split_services(fill_in(SECTIONS[name], ids, home)):
        if service:
            run_beside(environment, service, script, home, variables)
        else:
            environment.shell(script, home, stdin=ANSWERS.get(name, ""), **variables)
