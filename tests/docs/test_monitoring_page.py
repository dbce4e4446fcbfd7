"""What is shipped for operators: rules, dashboard, units and manifests ask for what the programs have."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import click
import pytest
import yaml
from pydantic import BaseModel

from agentmem import AsyncAgentMemory, Settings
from agentmem.cli.main import cli_group
from agentmem.jobs.monitoring import Monitor
from agentmem.jobs.process_metrics import NOTICE_PARTS
from agentmem.jobs.worker import GRACE_SECONDS, ConsolidationWorker
from agentmem.settings.sections import ServerOptions
from tests.surfaces.conftest import open_client

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/monitoring.md").read_text(encoding="utf-8")
RULES = [
    rule
    for group in yaml.safe_load((ROOT / "docker/monitoring/alerts.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
DASHBOARD = json.loads((ROOT / "docker/monitoring/dashboard.json").read_text(encoding="utf-8"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
PROGRAMS = ("worker", "serve")
SELECTOR = re.compile(r"\b(agentmem_\w+)(?:\{([^}]*)\})?")
SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? \S+$", re.MULTILINE)
LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"")
OF_SCRAPES = {"job", "instance"}

Metrics = dict[str, set[str]]


def read_metrics(text: str) -> Metrics:
    """Names of samples with the names of their labels."""
    return {name: set(LABEL.findall(labels)) for name, labels in SAMPLE.findall(text)}


def fetch(url: str) -> str:
    with urlopen(url, timeout=20) as answer:
        return str(answer.read().decode())


async def scrape_both(home: Path) -> tuple[str, str]:
    """What a worker and a server render after a turn, a recall, and a run."""
    memory, monitor = AsyncAgentMemory("ann", home=home, embedder="hash"), Monitor()
    async with open_client(memory) as client:
        await client.post("/v1/turns", json={"content": "My sister Anna lives in Porto."})
        for _ in range(2):
            await client.post("/v1/recall", json={"query": "who is Anna?"})
        worker = ConsolidationWorker(memory.engine, jobs=["consolidate"], on_report=monitor.record_run)
        await worker.run_once()
        port = monitor.open(worker, "127.0.0.1", 0)
        try:
            fetched = await asyncio.to_thread(fetch, f"http://127.0.0.1:{port}/metrics")
        finally:
            await asyncio.to_thread(monitor.close)
        return fetched, (await client.get("/metrics")).text


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Metrics]:
    """The metrics of each program."""
    texts = asyncio.run(scrape_both(tmp_path_factory.mktemp("home")))
    return dict(zip(PROGRAMS, map(read_metrics, texts), strict=True))


@pytest.fixture(scope="module")
def known(rendered: dict[str, Metrics]) -> Metrics:
    """The metrics of both, as Prometheus stores them: a label `job` gives way to that of the scrape."""
    both = {**rendered["serve"], **rendered["worker"]}
    return {name: {"exported_job" if label == "job" else label for label in labels} for name, labels in both.items()}


def test_a_server_tells_of_its_memory_as_the_worker_does(rendered: dict[str, Metrics]) -> None:
    names = {"up", "milliseconds", "cache_hits", "cache_misses", "recall_receipts", "recall_notices", "records"}
    for name in names:
        assert rendered["serve"][f"agentmem_{name}"] == rendered["worker"][f"agentmem_{name}"]


def test_rules_and_dashboard_ask_for_metrics_that_exist(known: Metrics) -> None:
    asked = [(rule["alert"], rule["expr"]) for rule in RULES]
    asked += [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]
    assert len(asked) > 25
    for where, expression in asked:
        for name, matchers in SELECTOR.findall(expression):
            assert name in known, f"{where}: {name}"
            assert set(LABEL.findall(matchers)) <= known[name] | OF_SCRAPES, f"{where}: {name}{{{matchers}}}"
        for grouped in re.findall(r"\bby \(([^)]*)\)", expression):
            labels = set().union(*(known[name] for name, _ in SELECTOR.findall(expression))) | OF_SCRAPES | {"le"}
            assert set(re.split(r",\s*", grouped)) <= labels, f"{where}: by ({grouped})"


def test_the_page_has_all_metrics_and_no_others(known: Metrics) -> None:
    table = PAGE.split("## Metrics")[1].split("\n## ")[0]
    shown = set(re.findall(r"`(agentmem_\w+)", table))
    written = {re.sub(r"_(bucket|count|sum|created)$", "", name) for name in known if name.startswith("agentmem_")}
    assert {re.sub(r"_total$", "", name) for name in shown} == {re.sub(r"_total$", "", name) for name in written}
    assert all(f"`{part}`" in table for part in NOTICE_PARTS)


def test_every_alarm_has_a_rule_and_stands_on_the_page() -> None:
    operations = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`agentmem_.*?) \| .* \| (\S.*?) \|$", operations, re.MULTILINE)
    asked = " ".join(rule["expr"] for rule in RULES)
    assert len(rows) >= 8
    endings = [re.findall(r"`(?:agentmem)?(_\w+)", names) for names, _ in rows]  # some rows leave the beginning out
    assert [names for names in endings if not any(re.search(rf"\bagentmem\w*{name}\b", asked) for name in names)] == []
    alerts = {rule["alert"] for rule in RULES}
    assert set(re.findall(r"`(Agentmem\w+)`", PAGE)) == alerts
    assert len(alerts) == len(RULES)
    for rule in RULES:
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert set(rule["annotations"]) == {"summary", "description"}


def test_the_dashboard_takes_its_data_source_from_a_variable() -> None:
    first = DASHBOARD["templating"]["list"][0]
    assert (first["name"], first["type"], first["query"]) == ("datasource", "datasource", "prometheus")
    for panel in PANELS:
        assert {each["datasource"]["uid"] for each in (panel, *panel["targets"])} == {"${datasource}"}
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    places = [
        {(panel["gridPos"]["x"] + x, panel["gridPos"]["y"]) for x in range(panel["gridPos"]["w"])} for panel in PANELS
    ]
    assert sum(map(len, places)) == len(set().union(*places))


def parse_command(words: list[str]) -> dict[str, Any]:
    """The options of a command as the real command line reads them. Raises click.UsageError."""
    group = click.Context(cli_group, info_name="agentmem")
    command = cli_group.get_command(group, words[0])
    assert command is not None, words
    return command.make_context(words[0], words[1:], parent=group).params


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_unit_starts_a_command_that_exists(program: str) -> None:
    unit = ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(ROOT / f"docker/systemd/agentmem-{program}.service", encoding="utf-8")
    service = unit["Service"]
    executable, *words = shlex.split(service["ExecStart"])
    options = parse_command(words)
    assert (executable, words[0]) == ("/opt/agentmem/bin/agentmem", program)
    if program == "worker":
        assert options["health_file"].parent == Path("/run") / service["RuntimeDirectory"]
        assert options["port"] is not None
    assert (service["NoNewPrivileges"], service["ProtectSystem"]) == ("yes", "strict")
    assert (service["Restart"], service["StateDirectory"]) == ("on-failure", "agentmem")
    assert service["EnvironmentFile"].endswith(f"/{program}.env")
    assert int(service["TimeoutStopSec"]) > max(GRACE_SECONDS, ServerOptions().drain_seconds)
    assert unit["Install"]["WantedBy"] == "multi-user.target"


def setting_names(environment: list[dict[str, Any]]) -> Iterator[tuple[str, list[str]]]:
    return ((each["name"], each["name"].removeprefix("AGENTMEM_").lower().split("__")) for each in environment)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_manifest_starts_a_command_that_exists(program: str) -> None:
    text = (ROOT / f"docker/kubernetes/{program}.yaml").read_text(encoding="utf-8")
    deployment, service = yaml.safe_load_all(text)
    pod, labels = deployment["spec"]["template"]["spec"], deployment["spec"]["template"]["metadata"]["labels"]
    (container,) = pod["containers"]
    options = parse_command(container["args"])
    (port,) = container["ports"]
    assert (container["args"][0], options["port"]) == (program, port["containerPort"])
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"] == labels
    assert service["spec"]["ports"][0]["targetPort"] == port["name"]
    ready = "/health" if program == "worker" else "/ready"
    for probe, path in (("startup", "/health"), ("liveness", "/health"), ("readiness", ready)):
        assert container[f"{probe}Probe"]["httpGet"] == {"path": path, "port": port["name"]}
    for name, parts in setting_names([each for each in container["env"] if each["name"] != "POD_IP"]):
        model: type[BaseModel] = Settings
        for part in parts:
            assert part in model.model_fields, name
            kind = model.model_fields[part].annotation
            model = kind if isinstance(kind, type) and issubclass(kind, BaseModel) else model


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_pod_runs_without_privileges_and_has_time_to_end(program: str) -> None:
    deployment = next(yaml.safe_load_all((ROOT / f"docker/kubernetes/{program}.yaml").read_text(encoding="utf-8")))
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    dockerfile = (ROOT / "docker/Dockerfile").read_text(encoding="utf-8")
    assert f"USER {pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}" in dockerfile
    assert pod["securityContext"]["runAsNonRoot"] is True
    secured = container["securityContext"]
    assert (secured["readOnlyRootFilesystem"], secured["allowPrivilegeEscalation"]) == (True, False)
    assert secured["capabilities"] == {"drop": ["ALL"]}
    assert {"requests", "limits"} == set(container["resources"])
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounted.keys() == {volume["name"] for volume in pod["volumes"]}
    assert {"/data", "/tmp"} < set(mounted.values())
    values = {each["name"]: each.get("value", "") for each in container["env"]}
    files = [value for name, value in values.items() if name.endswith("_PASSWORD_FILE")]
    assert files
    assert all(Path(file).parent == Path(mounted["passwords"]) for file in files)
    assert all("password" not in value or value in files for value in values.values())
    waits = [int(container["lifecycle"]["preStop"]["exec"]["command"][1])] if "lifecycle" in container else [0]
    drain = int(values.get("AGENTMEM_SERVER__DRAIN_SECONDS", GRACE_SECONDS))
    assert pod["terminationGracePeriodSeconds"] >= sum(waits) + drain + 10
