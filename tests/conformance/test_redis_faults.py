"""The session cache in Redis when the server is away, slow or strange, and in other processes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import redis
import trustme

from agentmem.errors import ConfigError, StoreUnavailable
from agentmem.memory.working.memory import WorkingMemory
from agentmem.stores.redis import open_session
from tests.conformance.caches import ANN, open_memory_with_session, open_redis_session, write_sample_keys
from tests.conformance.stores import ManualClock
from tests.servers.local import LocalServer, free_port
from tests.servers.redis import Redis

ROOT = Path(__file__).parents[2]

# -- a server that is away


async def test_a_server_that_is_killed_and_comes_back(own_redis: LocalServer) -> None:
    async with open_redis_session(own_redis.url) as session:
        await asyncio.gather(*[write_sample_keys(session) for _ in range(4)])
        own_redis.kill()
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match=f"127.0.0.1:{own_redis.port}"):
                await session.get(ANN, "identity")
        with pytest.raises(StoreUnavailable):
            await session.push(ANN, "l", 1, keep=2, ttl=60)
        own_redis.restart()
        await session.push(ANN, "l", 1, keep=2, ttl=60)
        assert await session.items(ANN, "") == {"l": [1]}
        await asyncio.to_thread(own_redis.restart)
        assert await session.increment(ANN, "n", ttl=60) == 1, "no request goes to a connection that has ended"


@pytest.mark.impatient
async def test_a_server_that_stands_still_holds_nobody_up(own_redis: LocalServer) -> None:
    async with open_redis_session(own_redis.url) as session:
        for n in range(30):
            await sooner_or_later(partial(session.set, ANN, f"k{n}", n, ttl=600))
        own_redis.pause()
        asked = [session.get(ANN, f"k{n}") for n in range(30)]
        answers = await asyncio.gather(*asked, session.items(ANN, ""), return_exceptions=True)
        assert {type(answer) for answer in answers} == {StoreUnavailable}
        own_redis.resume()
        asked = [sooner_or_later(partial(session.get, ANN, f"k{n}")) for n in range(30)]
        assert await asyncio.gather(*asked) == list(range(30)), "no late answer goes to another question"


async def sooner_or_later(ask: Callable[[], Awaitable[object]]) -> object:
    """The first answer of a server that is there, of a machine that may be too busy for the time it is given."""
    async with asyncio.timeout(120):
        while True:
            with suppress(StoreUnavailable):
                return await ask()


async def test_a_server_that_is_down_at_opening_is_used_when_it_is_there(own_redis: LocalServer) -> None:
    own_redis.stop()
    async with open_redis_session(own_redis.url) as session:
        with pytest.raises(StoreUnavailable):
            await session.server_info()
        own_redis.restart()
        await session.set(ANN, "k", 1, ttl=60)
        assert await session.get(ANN, "k") == 1
        assert int((await session.server_info())["version"].partition(".")[0]) >= 7


async def test_without_redis_memory_goes_on(own_redis: LocalServer, home: Path) -> None:
    async with (
        open_redis_session(own_redis.url) as session,
        open_memory_with_session(home, session, conversation_id="talk") as memory,
    ):
        await memory.working.set("city", "Oslo")
        own_redis.kill()
        turn = await memory.store_turn("The harbour is frozen.")
        await memory.engine.drain_background()
        assert [found.id for found in (await memory.remember("harbour")).turns] == [turn.id]
        assert await nothing_at_hand(memory.working)
        assert "The harbour is frozen." in await memory.working.current_markdown()
        for verb in (
            memory.working.set("city", "Bergen"),
            memory.working.push_thought("wait"),
            memory.working.delete("city"),
            memory.working.clear(),
        ):
            with pytest.raises(StoreUnavailable):
                await verb
        own_redis.restart()
        await memory.working.set("city", "Bergen")
        assert await memory.working.context() == {"city": "Bergen"}


async def nothing_at_hand(working: WorkingMemory) -> bool:
    """Whether all that reads the cache says that it is empty."""
    return (await working.get("city"), await working.context(), await working.thoughts()) == (None, {}, [])


# -- addresses and passwords


@pytest.mark.parametrize("hidden", [(), ("--rename-command", "AUTH", "")], ids=["refused", "repeated by the server"])
async def test_no_message_holds_the_password(
    redis_url: str, hidden: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    with Redis("--requirepass", "right", *hidden) as server:
        for login in (":s3cret", "ann:s3cret", "ann:s3c%72et"):
            async with open_redis_session(server.url.replace("//", f"//{login}@")) as session:
                with pytest.raises(StoreUnavailable) as caught:
                    await session.get(ANN, "k")
                error: BaseException | None = caught.value
                while error is not None:
                    assert "s3cret" not in f"{error!r} {session!r} {caplog.text}"
                    error = error.__cause__
        async with open_redis_session(server.url) as session:
            with pytest.raises(StoreUnavailable, match=r"[Aa]uthentication"):
                await session.get(ANN, "k")
        if not hidden:
            async with open_redis_session(server.url.replace("//", "//:right@")) as session:
                assert await session.get(ANN, "k") is None


@pytest.mark.parametrize(
    "url",
    [
        "http://ann:s3cret@host",
        "redis://ann:s3cret/x@host:port",
        "redis://host:s3cret",
        "redis://:s3cret@host/0?timeout=soon",
        "redis://:s3cret@host/0?no_such_option=1",
    ],
)
async def test_an_address_that_cannot_work_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"session_url .*redis://user:password@host:6379/0") as caught:
        await open_session(url, ManualClock())
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None


async def test_with_tls_the_certificate_is_checked(tmp_path: Path, redis_url: str) -> None:
    authority, port = trustme.CA(), free_port()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    files = ["--tls-cert-file", "--tls-key-file"]
    options = [word for name in files for word in (name, str(tmp_path / "server.pem"))]
    with Redis(
        "--tls-port", str(port), "--tls-auth-clients", "no", *options, "--tls-ca-cert-file", str(tmp_path / "ca.pem")
    ):
        async with open_redis_session(f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={tmp_path / 'ca.pem'}") as session:
            await session.set(ANN, "k", 1, ttl=60)
            assert await session.get(ANN, "k") == 1
        for address in (f"127.0.0.1:{port}/0", f"localhost:{port}/0?ssl_ca_certs={tmp_path / 'ca.pem'}"):
            async with open_redis_session(f"rediss://{address}") as session:
                with pytest.raises(StoreUnavailable, match="certificate"):
                    await session.get(ANN, "k")


# -- processes


def run(script: str, *arguments: str) -> str:
    """What a script says that runs in a process of its own."""
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


def test_the_driver_is_loaded_when_a_cache_is_opened() -> None:
    assert run("import sys, agentmem.stores.redis; print('redis' in sys.modules)") == "False"


def test_without_the_driver_the_fix_is_named() -> None:
    script = (
        "import asyncio, sys; sys.modules['redis'] = None\n"
        "from agentmem.errors import ConfigError\n"
        "from agentmem.core.clock import SystemClock\n"
        "from agentmem.stores.redis import open_session\n"
        "try: asyncio.run(open_session('redis://127.0.0.1', SystemClock()))\n"
        "except ConfigError as error: print(error)\n"
    )
    assert "pip install 'agentmem-graph[redis]'" in run(script)


FORKING = """
import asyncio, os, sys, warnings
warnings.simplefilter("ignore")
from agentmem.core.clock import SystemClock
from agentmem.core.scope import Scope
from agentmem.stores.redis import open_session
ann = Scope("ann")
before, after = asyncio.new_event_loop(), asyncio.new_event_loop()
session = before.run_until_complete(open_session(sys.argv[1], SystemClock()))
before.run_until_complete(session.set(ann, "k", "parent", ttl=60))
child = os.fork()
if child == 0:
    for _ in range(50):
        assert after.run_until_complete(session.get(ann, "k")) == "parent"
    after.run_until_complete(session.set(ann, "child", 1, ttl=60))
    after.run_until_complete(session.close())
    os._exit(0)
for _ in range(50):
    assert before.run_until_complete(session.get(ann, "k")) == "parent"
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
print(before.run_until_complete(session.items(ann, "")))
before.run_until_complete(session.close())
"""


def test_a_fork_has_connections_of_its_own(redis_database: str) -> None:
    assert run(FORKING, redis_database) == "{'child': 1, 'k': 'parent'}"


async def test_a_user_of_the_server_with_the_documented_rights_can_do_all(own_redis: LocalServer) -> None:
    text = (ROOT / "schema" / "redis.md").read_text(encoding="utf-8")
    rights = " ".join(text[text.index("ACL SETUSER") :].partition("\n\n")[0].split())
    with redis.Redis.from_url(own_redis.url) as client:
        client.execute_command(rights)
    async with open_redis_session(own_redis.url.replace("//", "//agentmem:password@")) as session:
        await write_sample_keys(session)
        assert await session.items(ANN, "identity") == {"identity": {"name": "Ann"}}
        await session.clear(ANN)
        assert (await session.server_info())["version"]
    with redis.Redis.from_url(own_redis.url) as client:
        assert client.dbsize() == 0
        assert [line["username"] for line in client.acl_log()] == []
