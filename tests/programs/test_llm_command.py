"""A program as a language model: what it is given, and what becomes of one that misbehaves."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shlex
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from agentmem import BufferMemory
from agentmem.errors import AgentMemError, Closed, ConfigError, InvalidModelOutput, ModelUnavailable
from agentmem.models.protocols import LLM, MAX_LOGGED_CHARS, LLMOptions, LLMRequest
from agentmem.models.registry import LLMRegistry, open_llm
from agentmem.settings.settings import load_settings

ASK = LLMRequest(purpose="extract", system="Fixed.", content="Ann lives in Rome. \ud800 é")
Written = Callable[..., LLM]


@pytest.fixture
def program(tmp_path: Path) -> Written:
    """A model whose program is the given Python code; it finds `asked` and `json` there."""

    def write(
        code: str, *, reads: bool = True, timeout: float = 60.0, arguments: str = "", log_errors: bool = False
    ) -> LLM:
        path = tmp_path / "answer it.py"
        path.write_text("import json, os, sys, time\n" + "asked = json.load(sys.stdin)\n" * reads + code)
        line = f"{shlex.join([sys.executable, str(path)])} {arguments}"
        llm = open_llm(f"command:{line}", LLMOptions(timeout=timeout, log_errors=log_errors))
        assert llm is not None
        return llm

    return write


@pytest.fixture
def left() -> Callable[[], list[psutil.Process]]:
    """What was started since the test began and is still there; a run's servers are children of its processes, too."""
    before = psutil.Process().children()
    return lambda: [child for child in psutil.Process().children() if child not in before]


async def gone(pid: int) -> bool:
    """True once the process has ended, and nobody has yet to ask after it who is ours to ask."""
    for _ in range(2_000):
        try:
            process = psutil.Process(pid)
            if process.status() == psutil.STATUS_ZOMBIE and process.ppid() != os.getpid():
                return True
        except psutil.NoSuchProcess:
            return True
        await asyncio.sleep(0.01)
    return False


async def written(path: Path) -> str:
    """What a program wrote into a file, once it is there."""
    for _ in range(2_000):
        if path.exists() and path.read_text().endswith("\n"):
            return path.read_text().strip()
        await asyncio.sleep(0.01)
    raise AssertionError(f"{path} was never written")


async def test_the_program_gets_the_request_and_its_output_is_the_reply(program: Written) -> None:
    llm = program("print(json.dumps(asked), end='')")
    reply = await llm.complete(replace(ASK, schema={"type": "object"}, max_tokens=5, temperature=0.5))
    assert json.loads(reply.text) == {
        "purpose": "extract",
        "system": "Fixed.",
        "content": "Ann lives in Rome. \ud800 é",
        "schema": {"type": "object"},
        "max_tokens": 5,
        "temperature": 0.5,
    }
    assert llm.identity == f"command:{reply.model}" == f"command:{Path(sys.executable).name}"
    assert (reply.input_tokens, reply.cached_tokens) == (7, 0)
    assert reply.output_tokens == -(-len(reply.text) // 4)


async def test_no_shell_reads_the_command_line() -> None:
    llm = open_llm("command: echo '$HOME; a  b' | cat", LLMOptions())
    assert llm is not None
    assert (await llm.complete(ASK)).text == "$HOME; a  b | cat\n"


@pytest.mark.parametrize(
    "code, error, words",
    [
        ("sys.exit(3)", ModelUnavailable, "ended with code 3$"),
        ("sys.exit('first' + 'x' * 9_000)", ModelUnavailable, r"code 1; .* logs its 9,006 bytes of standard error$"),
        ("sys.stderr.buffer.write(b'\\xff bad'); sys.exit(2)", ModelUnavailable, "code 2; .* its 5 bytes"),
        ("os.kill(os.getpid(), 9)", ModelUnavailable, "ended by signal 9"),
        ("print('  ')", InvalidModelOutput, "extract: the reply was empty"),
        ("sys.stdout.buffer.write(b'ab\\xff')", InvalidModelOutput, r"not UTF-8 \(byte 2\)"),
        ("print('x' * 1_000_000)", InvalidModelOutput, "longer than 1,000,000 bytes"),
        ("while True: print('x' * 100_000)", InvalidModelOutput, "longer than 1,000,000 bytes"),
    ],
)
async def test_what_goes_wrong_is_told_in_our_terms(
    program: Written, left: Callable[[], list[psutil.Process]], code: str, error: type[AgentMemError], words: str
) -> None:
    with pytest.raises(error, match=words):
        await program(code).complete(ASK)
    assert left() == []


async def test_pipes_are_read_while_the_request_is_written(program: Written) -> None:
    """Neither side waits for the other: the program fills both pipes before it reads, and is sent more than fits."""
    llm = program(
        "sys.stderr.write('e' * 500_000); sys.stderr.flush(); print('o' * 500_000, flush=True)\n"
        "print(len(json.load(sys.stdin)['content']))",
        reads=False,
    )
    reply = await llm.complete(replace(ASK, content="c" * 500_000))
    assert reply.text.endswith("o\n500000\n")


async def test_a_program_need_not_read_its_input(program: Written) -> None:
    llm = program("os.close(0); print('fine')", reads=False)
    assert (await llm.complete(replace(ASK, content="c" * 500_000))).text == "fine\n"


FAMILY = """
import subprocess
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(asked["content"], "w").write(f"{os.getpid()} {child.pid}\\n")
"""


async def test_at_the_time_limit_the_program_is_killed(
    program: Written, left: Callable[[], list[psutil.Process]]
) -> None:
    with pytest.raises(ModelUnavailable, match=r"no answer within 0\.5 s"):
        await program("time.sleep(600)", timeout=0.5).complete(ASK)
    assert left() == []


@pytest.mark.parametrize("rest", ["time.sleep(600)", ""], ids=["parent too", "child holds the pipes"])
async def test_a_caller_who_gives_up_leaves_nothing_behind(program: Written, tmp_path: Path, rest: str) -> None:
    place = tmp_path / "ids"
    asking = asyncio.create_task(program(FAMILY + rest, timeout=600).complete(replace(ASK, content=str(place))))
    parent, child = map(int, (await written(place)).split())
    assert rest or await gone(parent)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await gone(parent)
    assert await gone(child)


async def test_a_pipe_held_by_a_program_that_left_the_group_is_let_go(program: Written, tmp_path: Path) -> None:
    place = tmp_path / "ids"
    before = psutil.Process().num_fds()
    code = FAMILY.replace('sleep(600)"]', 'sleep(600)"], start_new_session=True')
    asking = asyncio.create_task(program(code, timeout=600).complete(replace(ASK, content=str(place))))
    parent, child = map(int, (await written(place)).split())
    assert await gone(parent)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await asyncio.sleep(0)  # the transport closes its pipes in the loop's next round
    assert psutil.Process().num_fds() <= before
    os.kill(child, 9)


async def test_the_program_of_the_documentation_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "llm.md").read_text()
    code = page.partition("```python\n# answer.py")[2].partition("\n")[2].partition("```")[0]
    model = tmp_path / "my-model"
    model.write_text("#!/bin/sh\ncat\necho no luck >&2\nexit $CODE\n")
    model.chmod(0o755)
    (tmp_path / "answer.py").write_text(code)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    llm = open_llm(f"command:{shlex.join([sys.executable, str(tmp_path / 'answer.py')])}", LLMOptions())
    assert llm is not None
    monkeypatch.setenv("CODE", "0")
    reply = await llm.complete(replace(ASK, content="Ann", schema={"type": "object"}))
    assert reply.text.startswith("Fixed.\n\nAnn\n\nAnswer with one JSON object")
    assert reply.text.endswith('{"type": "object"}')
    monkeypatch.setenv("CODE", "1")
    with pytest.raises(ModelUnavailable, match=r"code 1; .* 9 bytes"):
        await llm.complete(replace(ASK, content="Ann"))


async def test_requests_run_side_by_side(program: Written, tmp_path: Path) -> None:
    """Each waits for a file that another one writes."""
    llm = program(
        "open(os.path.join(os.path.dirname(__file__), asked['system']), 'w').close()\n"
        "while not os.path.exists(os.path.join(os.path.dirname(__file__), asked['content'])): time.sleep(0.01)\n"
        "print(asked['system'])"
    )
    asked = [replace(ASK, system=one, content=other) for one, other in ("ab", "bc", "ca")]
    replies = await asyncio.gather(*(llm.complete(request) for request in asked))
    assert [reply.text for reply in replies] == ["a\n", "b\n", "c\n"]


@pytest.mark.parametrize(
    "spec, words", [("command", "name the program"), ("command:  ", "name the program"), ("command:a 'b", "quotation")]
)
def test_a_command_line_that_says_nothing_is_refused_at_once(spec: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        open_llm(spec, LLMOptions())


@pytest.mark.parametrize("name", ["no-such-program-anywhere", "/etc/passwd", "/etc/passwd/x"])
async def test_a_program_that_is_not_there_is_a_matter_of_settings(name: str) -> None:
    llm = open_llm(f"command:{name} -x", LLMOptions())
    assert llm is not None
    with pytest.raises(ConfigError, match="cannot be started"):
        await llm.complete(ASK)


async def test_after_close_nothing_is_started(program: Written, tmp_path: Path) -> None:
    llm = program(f"open({str(tmp_path / 'ran')!r}, 'w').close(); print('x')")
    await llm.close()
    with pytest.raises(Closed):
        await llm.complete(ASK)
    assert not (tmp_path / "ran").exists()


SPEAKS = "sys.stderr.write('said: ' + asked['content'] + ' ' + ' '.join(sys.argv)); sys.exit(1)"


async def test_neither_its_arguments_nor_what_it_complains_of_are_told(
    program: Written, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    llm = program(SPEAKS, arguments="--key hidden-word")
    asked = replace(ASK, content="peanuts")
    with pytest.raises(ModelUnavailable) as caught:
        await llm.complete(asked)
    told = "".join(traceback.format_exception(caught.value)) + caplog.text + repr(llm) + llm.identity
    assert [word for word in ("hidden-word", "peanuts", "answer it.py") if word in told] == []


async def test_those_who_ask_for_it_find_the_beginning_of_the_complaint_in_the_log(
    program: Written, caplog: pytest.LogCaptureFixture
) -> None:
    llm = program(SPEAKS, log_errors=True)
    with pytest.raises(ModelUnavailable) as caught:
        await llm.complete(replace(ASK, content="x" * 600))
    (event,) = [json.loads(record.getMessage()) for record in caplog.records]
    assert (event["event"], event["model"], event["level"]) == ("model_error_text", llm.identity, "warning")
    assert event["text"] == ("said: " + "x" * 600)[:MAX_LOGGED_CHARS]
    assert "xxx" not in str(caught.value)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, where somebody else put a program `answer`, and its folder is not in PATH."""
    folder = tmp_path / "repository"
    (folder / "bin").mkdir(parents=True)
    for name in ("answer", "bin/answer"):
        (folder / name).write_text("#!/bin/sh\necho theirs\n")
        (folder / name).chmod(0o755)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("entries", ["", ".", "bin", "./bin", "../repository"])
async def test_no_program_is_taken_from_the_working_directory(
    repository: Path, monkeypatch: pytest.MonkeyPatch, entries: str, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join([entries, os.environ["PATH"], entries]))
    for name in ("answer", "./answer", "bin/answer", "../repository/answer"):
        llm = open_llm(f"command:{name}", LLMOptions())
        assert llm is not None
        with pytest.raises(ConfigError, match="cannot be started"):
            await llm.complete(ASK)
    monkeypatch.setenv("PATH", os.pathsep.join([entries, str(repository / "bin")]))
    llm = open_llm("command:answer", LLMOptions())
    assert llm is not None
    assert (await llm.complete(ASK)).text == "theirs\n"


async def test_a_program_works_in_the_folder_of_the_memory_or_in_none(repository: Path, tmp_path: Path) -> None:
    """So that `python3 -c` and `python3 answer.py` import and open nothing of the working directory."""
    (tmp_path / "home").mkdir()
    for folder, told in ((tmp_path / "home", tmp_path / "home"), (tmp_path / "missing", "/"), (None, "/")):
        llm = open_llm("command:pwd", LLMOptions(work_dir=folder))
        assert llm is not None
        assert (await llm.complete(ASK)).text.strip() == str(told)


async def test_a_program_in_a_home_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "answer").write_text("#!/bin/sh\necho mine\n")
    (tmp_path / "answer").chmod(0o755)
    llm = open_llm("command:~/answer", LLMOptions())
    assert llm is not None
    assert (await llm.complete(ASK)).text == "mine\n"


def test_settings_give_the_program_their_home(tmp_path: Path) -> None:
    llms = LLMRegistry(load_settings(home=tmp_path, llm="command:pwd"))
    llm = llms._get_or_open(llms.spec("extraction"))
    assert llm is not None
    assert asyncio.run(llm.complete(ASK)).text.strip() == str(tmp_path)
    assert llms.model_name("extraction") == "command"
    assert LLMRegistry(load_settings(llm="openai:m")).model_name("verdict") == "openai:m"


def test_a_model_may_be_named_and_is_closed_with_the_buffer(tmp_path: Path) -> None:
    program = tmp_path / "model.py"
    program.write_text("import json, sys\njson.load(sys.stdin)\nprint(json.dumps({'summary': 'By a program.'}))\n")
    with BufferMemory(
        2, 1, None, 0.3, f"command:{shlex.join([sys.executable, str(program)])}", summary_batch=2
    ) as buffer:
        for number in range(3):
            buffer.add(str(number))
        assert [summary.content for summary in buffer.summaries] == ["By a program."]
    for number in range(2):
        buffer.add(str(number))
    assert "Closed" in buffer.notices[0]
