"""The user's profile and goals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentmem.errors import InvalidRecord
from agentmem.memory import Seat, first_of
from agentmem.model.changes import Change, Write, fingerprint
from agentmem.model.records import PROFILE, Goal, User, build, fields_of
from agentmem.model.scope import GLOBAL


@dataclass
class Profile:
    """Preferences, expertise, style; one record per user."""

    seat: Seat

    async def read(self) -> User:
        """The profile; an empty one when nothing was ever set, or what was set is forgotten."""
        found = await self.seat.resources.log.get("User", [PROFILE], self.seat.scope)
        if found and isinstance(found[0], User) and found[0].superseded_at is None:
            return found[0]
        return User(id=PROFILE, user_id=self.seat.scope.user_id, seq=found[0].seq if found else 0)

    async def update(
        self, *, key: str | None = None, preferences: Mapping[str, Any] | None = None,
        expertise_areas: Sequence[str] | None = None, communication_style: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> User:  # fmt: skip
        """Merge what is given into the profile; a value None inside a mapping removes that entry."""
        maps = {"preferences": preferences, "communication_style": communication_style, "metadata": metadata}
        for name, value in maps.items():
            if value is not None and not isinstance(value, Mapping):
                raise InvalidRecord(f"{name} must be a mapping, got {type(value).__name__}", field=name)
        if isinstance(expertise_areas, str):
            raise InvalidRecord("expertise_areas must be a list of strings, got a string", field="expertise_areas")

        async def make(write: Write) -> Change:
            old = await self.read()
            merged: dict[str, Any] = {
                name: _merged(getattr(old, name), new) for name, new in maps.items() if new is not None
            }
            if expertise_areas is not None:
                merged["expertise_areas"] = tuple(dict.fromkeys((*old.expertise_areas, *expertise_areas)))
            new = build(
                User, **{**old.model_dump(exclude=set(User.STAMPED)), **merged, "id": PROFILE, "channel": GLOBAL,
                         "created_at": old.created_at or write.now, "updated_at": write.now},
            )  # fmt: skip
            return write.change(new, expects={new.key: old.seq or None})

        payload = fingerprint(**maps, expertise_areas=expertise_areas)
        entry = await self.seat.resources.write(
            self.seat.scope, "update_profile", make, kind="User", key=key, payload=payload
        )
        return first_of(entry, User)


@dataclass
class Goals:
    """What is to be reached."""

    seat: Seat

    async def add(self, goal: Goal | Mapping[str, Any] | str, *, key: str | None = None) -> Goal:
        """Store a goal: a description, a mapping of Goal's fields, or a Goal."""
        if isinstance(goal, str):
            goal = {"description": goal}
        fields = fields_of(Goal, goal)

        async def make(write: Write) -> Change:
            named = {"conversation_id": self.seat.scope.conversation_id, **fields}
            draft = build(Goal, **{**named, "channel": self.seat.scope.channel})
            stamp = {"id": draft.id or self.seat.resources.ids.new(), "created_at": draft.created_at or write.now}
            new = draft.model_copy(update=stamp)
            if new.parent_id is not None:
                await self.seat.must_exist("parent_id", "Goal", [new.parent_id])
            return write.change(new, expects={new.key: None})

        entry = await self.seat.resources.write(
            self.seat.scope, "add_goal", make, kind="Goal", key=key, payload=fingerprint(**fields)
        )
        return first_of(entry, Goal)

    async def get(self, goal_id: str) -> Goal:
        """The goal of this id; NotFound when this scope has none."""
        goal = await self.seat.one("Goal", goal_id)
        assert isinstance(goal, Goal)
        return goal

    async def complete(
        self, goal_id: str, status: str = "completed", result: str = "", *, key: str | None = None
    ) -> Goal:
        """End a goal as `completed` or `abandoned`, with what came of it."""
        if status not in ("completed", "abandoned"):
            raise InvalidRecord(f"status must be completed or abandoned, got {status!r}", field="status")

        async def make(write: Write) -> Change:
            old = await self.get(goal_id)
            if old.goal_status in ("completed", "abandoned"):
                raise InvalidRecord(f"goal {goal_id!r} has ended before ({old.goal_status})", field="goal_id")
            new = old.model_copy(update={"goal_status": status, "result": result, "completed_at": write.now})
            return write.change(new, expects={old.key: old.seq})

        entry = await self.seat.resources.write(
            self.seat.scope, "complete_goal", make, kind="Goal", key=key,
            payload=fingerprint(id=goal_id, status=status, result=result),
        )  # fmt: skip
        return first_of(entry, Goal)

    async def active(self) -> list[Goal]:
        """Active goals of the readable channels, most urgent first (priority 5 to 1, then oldest)."""
        goals = [goal for goal in await self.seat.all("Goal") if isinstance(goal, Goal)]
        live = [goal for goal in goals if goal.goal_status == "active" and goal.superseded_at is None]
        return sorted(live, key=lambda goal: (-goal.priority, goal.seq))


def _merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**old, **new}.items() if value is not None}
