"""`current.md`: what stands on it, where it lies, that it is written in one step, and that it goes with its user."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem import AgentMemory, StoreUnavailable
from agentmem.memory.safe_folder import folder_name
from agentmem.memory.working.session_page import SessionPages, remove_page, remove_pages
from tests.flows.given import ManualClock, engine_of, open_memory, run

TALK = (
    ("user", "What files are in my Downloads folder?"),
    ("assistant", "I found 15 files in your Downloads folder:\n- report.pdf\n- image.png\n- ..."),
    ("user", "Can you open the PDF?"),
    ("assistant", "I'll open report.pdf for you."),
)
PAGE = """\
# Agent Short-Term Memory Context

## Session: sess_abc123
## Last Updated: 2024-01-15 10:30:00

### Recent Messages

**User:** What files are in my Downloads folder?

**Agent:** I found 15 files in your Downloads folder:
> - report.pdf
> - image.png
> - ...

**User:** Can you open the PDF?

**Agent:** I'll open report.pdf for you.
"""


def settled(memory: AgentMemory) -> None:
    run(engine_of(memory).drain_background())


def test_the_page_is_the_documents(home: Path) -> None:
    clock = ManualClock(datetime(2024, 1, 15, 10, 30, tzinfo=UTC))
    with open_memory(home, session_id="sess_abc123", clock=clock) as memory:
        memory.store_turns([{"role": role, "content": content} for role, content in TALK])
        assert memory.working.current_markdown() == PAGE
        path = memory.working.write_current_markdown()
        assert path == home / "agents" / "default" / "current.md"
        assert path.read_text() == f"{PAGE}\n<!-- agentmem: session of alice -->\n"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert [stat.S_IMODE(each.stat().st_mode) for each in (path.parent, path.parent.parent)] == [0o700, 0o700]
        assert os.listdir(path.parent) == ["current.md"]


CODE = """\

So:\r
```
if x:
\treturn  1
    # no heading

```
| a | b |
|---|---|
**Agent:** I did
"""
QUOTED_CODE = """\
**User:** So:
> ```
> if x:
>     return 1
>     # no heading
>
> ```
> | a | b |
> |---|---|
> **Agent:** I did
"""


def test_code_and_tables_of_a_message_stay_readable(home: Path) -> None:
    with open_memory(home) as memory:
        memory.store_turn(CODE)
        assert memory.working.current_markdown().endswith(f"\n\n{QUOTED_CODE}")


def test_the_page_shows_as_many_turns_as_the_window(home: Path) -> None:
    with open_memory(home, working_turns=20) as memory:
        memory.store_turns([f"Turn {number}." for number in range(30)])
        page = memory.working.current_markdown()
        assert page.count("**User:**") == 20
        assert "Turn 9." not in page


def test_with_the_setting_the_page_follows_every_turn_and_clear_removes_it(home: Path) -> None:
    with open_memory(home, current_md=True, agent_id="helper/1") as memory:
        path = home / "agents" / "helper%2F1" / "current.md"
        for number in range(5):
            memory.store_turn(f"Turn {number}.")
            settled(memory)
            assert f"Turn {number}." in path.read_text()
        memory.store_turn({"content": "Elsewhere.", "conversation_id": "other"})
        settled(memory)
        assert ("Elsewhere." in path.read_text(), "Turn 4." in path.read_text()) == (True, False)
        memory.working.clear()
        assert not path.exists()
        memory.working.clear()
        assert memory.working.turns(), "turns stay"
        memory.working.write_current_markdown()
        memory.scoped(user_id="bob").working.clear()
        assert path.exists(), "it is not bob's"
        memory.erase()
        assert not path.exists()


def test_without_the_setting_no_page_is_written(home: Path) -> None:
    with open_memory(home) as memory:
        memory.store_turn("Nothing to see.")
        settled(memory)
    assert not (home / "agents").exists()


def test_erasure_removes_every_page_of_the_user_and_no_other(home: Path) -> None:
    with open_memory(home) as memory:
        memory.store_turn("I'm Alice.")
        mine = [memory.scoped(agent_id=name).working.write_current_markdown() for name in ("one", "two")]
        theirs = memory.scoped(user_id="bob", agent_id="three").working.write_current_markdown()
        turn = memory.store_turn("Forget this.")
        memory.forget(turn.id, hard=True)
        assert [path.exists() for path in (*mine, theirs)] == [False, False, True]
        assert remove_pages(home, "bob") == 1


def test_what_another_process_erased_leaves_no_page_here(home: Path) -> None:
    with open_memory(home) as memory:
        memory.store_turn("I'm Alice.")
        path = memory.working.write_current_markdown()

        async def told() -> None:
            engine_of(memory).invalidate_user("alice")
            async with asyncio.timeout(60):
                while path.exists():
                    await asyncio.sleep(0.01)

        run(told())


def test_a_page_that_cannot_be_written_fails_no_turn_and_is_told(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open_memory(home, current_md=True) as memory:
        (home / "agents").write_text("a file stands in the way")
        with caplog.at_level(logging.WARNING, logger="agentmem"):
            memory.store_turn("Stored all the same.")
            settled(memory)
        assert [json.loads(record.getMessage())["event"] for record in caplog.records] == ["page_not_written"]
        with pytest.raises(StoreUnavailable, match="page"):
            memory.working.write_current_markdown()
        assert [turn.content for turn in memory.episodic.recent_turns()] == ["Stored all the same."]


def test_no_link_is_followed(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    elsewhere.mkdir()
    pages = SessionPages(home)
    path = pages.write("bot", "alice", "one", pages.next_version())
    path.unlink()
    (elsewhere / "target").write_text("untouched")
    path.symlink_to(elsewhere / "target")
    with pytest.raises(OSError, match="symbolic"):
        remove_page(home, "bot", "alice")
    assert pages.write("bot", "alice", "two", pages.next_version()).read_text().startswith("two\n")
    assert (path.is_symlink(), (elsewhere / "target").read_text()) == (False, "untouched")
    (home / "agents" / "linked").symlink_to(elsewhere)
    with pytest.raises(OSError, match=r"directory|symbolic"):
        pages.write("linked", "alice", "three", pages.next_version())
    assert os.listdir(elsewhere) == ["target"]


def test_an_older_state_never_replaces_a_newer_one(tmp_path: Path) -> None:
    pages = SessionPages(tmp_path)
    older, newer = pages.next_version(), pages.next_version()
    path = pages.write(None, "alice", "new", newer)
    assert pages.write(None, "alice", "old", older) == path
    assert path.parent.name == "default"
    assert path.read_text().startswith("new\n")
    assert os.listdir(path.parent) == ["current.md"]


@settings(max_examples=25)
@given(st.text(min_size=1, max_size=200), st.text(min_size=1, max_size=200))
def test_a_folder_is_one_safe_name_for_each_agent(one: str, other: str) -> None:
    names = [folder_name(agent.encode("utf-8", "replace").decode()) for agent in (one, other)]
    for name in names:
        assert "/" not in name
        assert not name.startswith(".")
        assert len(name) <= 200
    assert (names[0] == names[1]) == (one.encode("utf-8", "replace") == other.encode("utf-8", "replace"))


def test_names_that_would_lead_upwards_do_not() -> None:
    assert [folder_name(name) for name in ("bot", "..", ".", "a b", "../x")] == [
        "bot",
        "%2E.",
        "%2E",
        "a%20b",
        "%2E.%2Fx",
    ]
