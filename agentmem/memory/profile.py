"""The user's profile: what is believed of the user, and what a program set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentmem.beliefs.slots import USER_SUBJECT
from agentmem.core.changes import Change, WriteAttempt
from agentmem.core.records import PROFILE_ID, User, build_record
from agentmem.core.scope import GLOBAL
from agentmem.errors import InvalidRecord
from agentmem.memory.context import MemoryContext
from agentmem.memory.semantic.belief_view import BeliefView
from agentmem.memory.semantic.user_profile import UserProfile
from agentmem.memory.user_zone import read_local_time


@dataclass
class Profile:
    """What a program sets is one record per user: preferences, expertise, style."""

    _context: MemoryContext

    async def read(self) -> UserProfile:
        """What is believed of the user and what was set; empty when nothing is."""
        beliefs = await BeliefView(replace(self._context, is_facade=False)).beliefs(USER_SUBJECT)
        local = await read_local_time(self._context)
        told = await self._read_record()
        return UserProfile.model_construct(**dict(told), beliefs=tuple(each.relocate(local) for each in beliefs))

    async def _read_record(self) -> User:
        """What was set; empty when nothing ever was, or it is forgotten."""
        found = await self._context.engine.log.read_records("User", [PROFILE_ID], self._context.scope)
        if found and isinstance(found[0], User) and found[0].superseded_at is None:
            return found[0]
        return User(id=PROFILE_ID, user_id=self._context.scope.user_id, seq=found[0].seq if found else 0)

    async def update(
        self,
        *,
        idempotency_key: str | None = None,
        preferences: Mapping[str, Any] | None = None,
        expertise_areas: Sequence[str] | None = None,
        communication_style: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> User:
        """Merge what is given into the profile; a value None inside a mapping removes that entry."""
        maps = {"preferences": preferences, "communication_style": communication_style, "metadata": metadata}
        for name, value in maps.items():
            if value is not None and not isinstance(value, Mapping):
                raise InvalidRecord(f"{name} must be a mapping, got {type(value).__name__}", field=name)
        if isinstance(expertise_areas, str):
            raise InvalidRecord("expertise_areas must be a list of strings, got a string", field="expertise_areas")

        async def make(write: WriteAttempt) -> Change:
            old = await self._read_record()
            merged: dict[str, Any] = {
                name: _merge_mappings(getattr(old, name), new) for name, new in maps.items() if new is not None
            }
            if expertise_areas is not None:
                merged["expertise_areas"] = tuple(dict.fromkeys((*old.expertise_areas, *expertise_areas)))
            new = build_record(
                User,
                **{
                    **old.model_dump(exclude=set(User.NON_PAYLOAD_FIELDS)),
                    **merged,
                    "id": PROFILE_ID,
                    "channel": GLOBAL,
                    "created_at": old.created_at or write.now,
                    "updated_at": write.now,
                },
            )
            return write.build_change(new, expected_versions={new.key: old.seq or None})

        given = {**maps, "expertise_areas": expertise_areas}
        return await self._context.write(User, "update_profile", make, idempotency_key=idempotency_key, given=given)


def _merge_mappings(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**old, **new}.items() if value is not None}
