"""Goals, the graph they form, and the active one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, TypedDict, Unpack

from agentmem.core.arguments import check_arguments
from agentmem.core.changes import Change, WriteAttempt
from agentmem.core.plain_values import describe_value
from agentmem.core.procedural_records import Outcome
from agentmem.core.record import FinalGoalStatus, GoalStatus, Key
from agentmem.core.records import Goal, build_record, extract_fields, replace_validated
from agentmem.errors import InvalidRecord
from agentmem.memory.context import MemoryContext, get_written_record
from agentmem.memory.procedural.strategies import Outcomes
from agentmem.memory.read_audit import audit_read
from agentmem.stores.values import Where

MAX_GOALS_WALKED = 10_000  # goals looked at for one question
LINK_FIELDS = ("parent_id", "blocked_by")

FINAL_STATUSES = ("completed", "abandoned")
STATUSES = ("active", "blocked", *FINAL_STATUSES)
MAX_DEPTH = 10  # levels of sub-goals in one answer


@dataclass(frozen=True, slots=True)
class GoalNode:
    """A goal with what is below it."""

    goal: Goal
    sub_goals: tuple[GoalNode, ...] = ()


def build_trees(root: str, goals: Iterable[Goal], depth: int) -> list[GoalNode]:
    """The trees below a goal, `depth` levels of them, in the order of `goals`; each goal once."""
    return _build_subtrees(root, _group_by_parent(goals), depth, {root})


def _build_subtrees(root: str, parts: Mapping[str, Sequence[Goal]], depth: int, seen: set[str]) -> list[GoalNode]:
    found = [goal for goal in parts.get(root, ()) if depth and goal.id not in seen]
    seen.update(goal.id for goal in found)
    return [GoalNode(goal, tuple(_build_subtrees(goal.id, parts, depth - 1, seen))) for goal in found]


def descendants(root: str, goals: Iterable[Goal]) -> list[Goal]:
    """All goals below a goal, at any depth, nearest first."""
    parts, seen, found = _group_by_parent(goals), {root}, list[Goal]()
    level = [root]
    while level:
        more = [goal for name in level for goal in parts.get(name, ()) if goal.id not in seen]
        seen.update(goal.id for goal in more)
        found += more
        level = [goal.id for goal in more]
    return found


def _group_by_parent(goals: Iterable[Goal]) -> dict[str, list[Goal]]:
    parts: dict[str, list[Goal]] = {}
    for goal in goals:
        if goal.parent_id:
            parts.setdefault(goal.parent_id, []).append(goal)
    return parts


def unblock_dependents(blocker: str, goals: Iterable[Goal], exclude: Collection[Goal]) -> list[Goal]:
    """What waits for a goal, waiting no longer; but for those in `exclude`. With its last blocker gone it is active."""
    spared, out = {goal.id for goal in exclude}, []
    for goal in goals:
        if blocker in goal.blocked_by and goal.goal_status in ("active", "blocked") and goal.id not in spared:
            left = tuple(name for name in goal.blocked_by if name != blocker)
            out.append(goal.model_copy(update={"blocked_by": left, "goal_status": "blocked" if left else "active"}))
    return out


async def check_cycles(
    context: MemoryContext, goals: Iterable[Goal], fields: Sequence[str] = LINK_FIELDS
) -> dict[Key, int]:
    """Refuse goals that would be above themselves, or wait for themselves; returns the state of all linked goals.

    A write expects this state, or two concurrent writes could form a cycle together.
    """
    new = {goal.id: goal for goal in goals}
    seqs: dict[Key, int] = {}
    for field in fields:
        for goal in new.values():
            seqs |= await _check_cycle_from(context, goal, field, new)
    return {key: seq for key, seq in seqs.items() if key[1] not in new}


async def _check_cycle_from(context: MemoryContext, start: Goal, field: str, new: Mapping[str, Goal]) -> dict[Key, int]:
    came: dict[str, str] = {}  # from which goal one was reached first
    stored: dict[str, Goal] = {}
    level = [start]
    while level and len(came) < MAX_GOALS_WALKED:
        for goal in level:
            for name in _linked_ids(goal, field):
                came.setdefault(name, goal.id)
        if start.id in came:
            raise InvalidRecord(f"{field}: a circle: {_describe_cycle(context, start, came, stored)}", field=field)
        fresh = [name for name in came if name not in stored]
        found = await context.engine.log.read_records("Goal", fresh, context.scope) if fresh else []
        level = [new.get(goal.id, goal) for goal in found if isinstance(goal, Goal)]
        stored |= {goal.id: goal for goal in found if isinstance(goal, Goal)}
        for name in fresh:
            if name not in stored:  # erased: it leads nowhere
                came.pop(name)
    return {goal.key: goal.seq for goal in stored.values()}


def _linked_ids(goal: Goal, field: str) -> list[str]:
    if field == "parent_id":
        return [goal.parent_id] if goal.parent_id else []
    return list(goal.blocked_by)


def _describe_cycle(
    context: MemoryContext, start: Goal, reached_from: Mapping[str, str], stored: Mapping[str, Goal]
) -> str:
    """The way round, from the goal to itself; goals that the scope may not read are not named."""
    way, at = [start.id], reached_from[start.id]
    while at != start.id:
        way.append(at)
        at = reached_from[at]
    readable = context.scope.readable_channels()
    hidden = {name for name, goal in stored.items() if goal.channel not in readable}
    return " -> ".join("(of another channel)" if name in hidden else repr(name) for name in (start.id, *reversed(way)))


class GoalFields(TypedDict, total=False):
    """What may be changed of an open goal; None takes a deadline or a parent away."""

    description: str
    priority: Annotated[int, "1 to 5, 5 is most urgent."]
    deadline: datetime | None
    progress: Annotated[float, "0 to 1."]
    parent_id: str | None


@check_arguments
@dataclass
class Goals:
    """What is to be reached."""

    _context: MemoryContext

    async def add(self, goal: Goal | Mapping[str, Any] | str, *, idempotency_key: str | None = None) -> Goal:
        """Store a goal: a description, a mapping of Goal's fields, or a Goal. One with blockers is `blocked`."""
        return await self._add(goal, idempotency_key=idempotency_key)

    async def _add(
        self,
        goal: Goal | Mapping[str, Any] | str,
        *,
        idempotency_key: str | None = None,
        active_in_conversation: str = "",
    ) -> Goal:
        """Store a goal; with `active_in_conversation`, as the active one of that conversation."""
        fields = extract_fields(Goal, {"description": goal} if isinstance(goal, str) else goal)

        async def make(write: WriteAttempt) -> Change:
            new, expects = await self._build_draft(fields, write.now)
            others = await self._list_active_in_conversation(active_in_conversation)
            if active_in_conversation:
                new = new.model_copy(update={"pursued_in": active_in_conversation})
            aside = [other.model_copy(update={"pursued_in": ""}) for other in others]
            return write.build_change(
                new, *aside, expected_versions={**expects, **_expected_versions(others), new.key: None}
            )

        return await self._context.write(Goal, "add_goal", make, idempotency_key=idempotency_key, given=fields)

    async def _build_draft(self, fields: Mapping[str, Any], now: datetime) -> tuple[Goal, dict[Key, int]]:
        """The new goal, and the state of the goals that it names."""
        scope = self._context.scope
        named = {"conversation_id": scope.conversation_id, "agent_id": scope.agent_id, **fields}
        draft = build_record(Goal, **{**named, "channel": scope.channel})
        draft = await self._context.with_own_id(await self._resolve_links(draft))
        stamp = {"id": draft.id or self._context.engine.ids.new_id(), "created_at": draft.created_at or now}
        new = draft.model_copy(update=stamp)
        expects = await self._check_links(new, ["parent_id", "blocked_by"])
        return (new.model_copy(update={"goal_status": "blocked"}) if new.is_open and new.blocked_by else new), expects

    async def _resolve_links(self, goal: Goal) -> Goal:
        """Return the goal with the stored ids of its parent and its blockers."""
        if not goal.parent_id and not goal.blocked_by:
            return goal
        parent, *blockers = await self._context.resolve_ids("Goal", [goal.parent_id or "", *goal.blocked_by])
        return goal.model_copy(update={"parent_id": parent or None, "blocked_by": tuple(blockers)})

    async def _check_links(self, goal: Goal, fields: Sequence[str]) -> dict[Key, int]:
        """The state of the goals that these fields name. Refuses unknown ids, ended goals and cycles."""
        seen: dict[Key, int] = {}
        for field in fields:
            named = [goal.parent_id] if field == "parent_id" else list(goal.blocked_by)
            ids = [name for name in named if name]
            seen |= await self._context.require_existing(field, "Goal", ids)
            for other in await self._read_goals(ids):
                if goal.is_open and not other.is_open:
                    raise InvalidRecord(f"{field}: goal {other.id!r} has ended or is forgotten", field=field)
        # Their first state, not the state in the walk: one may have ended in between, or been erased.
        return {**await check_cycles(self._context, [goal], fields), **seen}

    async def get(self, goal_id: str) -> Goal:
        """The goal of this id; NotFound when this scope has none."""
        return await self._context.get_one(Goal, goal_id)

    async def _get_open(self, goal_id: str) -> Goal:
        goal = await self.get(goal_id)
        if not goal.is_open:
            why = f"has ended before ({goal.goal_status})" if goal.goal_status in FINAL_STATUSES else "was forgotten"
            raise InvalidRecord(f"goal {goal_id!r} {why}", field="goal_id")
        return goal

    async def update(self, goal_id: str, *, idempotency_key: str | None = None, **fields: Unpack[GoalFields]) -> Goal:
        """Change an open goal: `description`, `priority`, `deadline`, `progress` or `parent_id`.

        Raises InvalidRecord naming the field, also where a parent would be a sub-goal of the goal itself.
        """
        given = dict(fields)
        for name in given:
            if name not in GoalFields.__annotations__:
                known = ", ".join(GoalFields.__annotations__)
                raise InvalidRecord(f"a goal has no field {name!r} to set; it may have {known}", field=name)

        async def make(write: WriteAttempt) -> Change:
            old = await self._get_open(goal_id)
            new = await self._resolve_links(replace_validated(old, **given))
            expects = await self._check_links(new, ["parent_id"]) if given.get("parent_id") else {}
            return write.build_change(new, expected_versions={**expects, old.key: old.seq})

        return await self._context.write(
            Goal, "update_goal", make, idempotency_key=idempotency_key, given={"id": goal_id, **given}
        )

    async def record_progress(
        self,
        goal_id: str,
        progress: Annotated[float, "0 to 1."],
        note: str = "",
        *,
        idempotency_key: str | None = None,
    ) -> Goal:
        """Record the progress of an open goal, with a note; earlier notes stay in its history."""

        async def make(write: WriteAttempt) -> Change:
            old = await self._get_open(goal_id)
            return write.build_change(
                replace_validated(old, progress=progress, note=note), expected_versions={old.key: old.seq}
            )

        said = {"id": goal_id, "progress": progress, "note": note}
        return await self._context.write(Goal, "progress_goal", make, idempotency_key=idempotency_key, given=said)

    # -- ending

    async def complete(
        self,
        goal_id: str,
        status: FinalGoalStatus = "completed",
        result: str = "",
        *,
        cascade: bool = False,
        idempotency_key: str | None = None,
    ) -> Goal:
        """End a goal as `completed` or `abandoned`, with what came of it.

        While sub-goals are open it is refused, unless `cascade` abandons them. A goal whose last blocker completes
        becomes active in the same change; an abandoned blocker goes on blocking until `unblock`. How it ended is noted
        as with `reflect`.
        """
        if status not in FINAL_STATUSES:
            raise InvalidRecord(f"status must be completed or abandoned, got {describe_value(status)}", field="status")
        return await self._end(goal_id, status, result, cascade=cascade, idempotency_key=idempotency_key)

    async def _end(
        self,
        goal_id: str,
        status: FinalGoalStatus,
        result: str,
        *,
        cascade: bool,
        idempotency_key: str | None = None,
        previous: Goal | None = None,
    ) -> Goal:
        """End a goal. `previous` is the goal to be active again in the conversation where this one was."""

        async def make(write: WriteAttempt) -> Change:
            seen = (await self._context.engine.log.head(self._context.scope)).seq
            old, known = await self._get_open(goal_id), await self._list_across_channels()
            parts = [
                goal
                for goal in descendants(old.id, known)
                if goal.is_open and goal.channel in self._context.scope.readable_channels()
            ]
            if parts and not cascade:
                names = ", ".join(repr(goal.id) for goal in parts[:5])
                raise InvalidRecord(
                    f"goal {goal_id!r} has open sub-goals: {names}; end them first, or give cascade=True",
                    field="goal_id",
                )
            ended = {"completed_at": write.now, "pursued_in": ""}
            full = {"progress": 1.0} if status == "completed" else {}
            puts = [old.model_copy(update={**ended, **full, "goal_status": status, "result": result})]
            with_it = {**ended, "goal_status": "abandoned", "result": f"with goal {old.id}"}
            puts += [goal.model_copy(update=with_it) for goal in parts]
            if status == "completed":
                puts += unblock_dependents(old.id, known, exclude=puts)
            puts += await self._reactivate_previous(previous, old, puts)
            lesson = await self._build_outcome_change(write, puts[0], old.pursued_in)
            # Another part, or another goal that waits, would leave all of these as they are.
            since = {"Goal": seen}
            return write.build_change(
                *puts,
                *lesson.upserts,
                expected_versions={**lesson.expected_versions, **_expected_versions(puts)},
                no_new_since=since,
            )

        said = {"id": goal_id, "status": status, "result": result, **({"cascade": True} if cascade else {})}
        return await self._context.write(Goal, "complete_goal", make, idempotency_key=idempotency_key, given=said)

    async def _build_outcome_change(self, write: WriteAttempt, goal: Goal, active_in_conversation: str) -> Change:
        """What `reflect` makes of the end of a goal, for the strategies that were followed where it was pursued."""
        scope = self._context.scope
        places = [place for place in (active_in_conversation, scope.conversation_id, goal.conversation_id) if place]
        stored = [name for name in places if await self._context.find_conversation(name)]
        outcome = Outcome(
            success=goal.goal_status == "completed",
            goal_id=goal.id,
            feedback=goal.result,
            conversation_id=stored[0] if stored else "",
        )
        return await Outcomes(self._context).build_reflect_change(write, outcome)

    async def _reactivate_previous(self, previous: Goal | None, ended: Goal, puts: Sequence[Goal]) -> list[Goal]:
        """The goal that was active before, active again: unless it has ended, or another one is active by now."""
        if previous is None or not ended.pursued_in or any(goal.id == previous.id for goal in puts):
            return []
        found = [goal for goal in await self._read_goals([previous.id]) if goal.is_open]
        return [goal.model_copy(update={"pursued_in": ended.pursued_in}) for goal in found]

    # -- waiting for each other

    async def block(self, goal_id: str, by: str | Sequence[str], *, idempotency_key: str | None = None) -> Goal:
        """Make an open goal wait for others: it is `blocked` until the last of them completes.

        Raises InvalidRecord for one that has ended or is not stored, and for a circle, which the message names.
        """
        blockers = _normalize_ids(by)

        async def make(write: WriteAttempt) -> Change:
            old = await self._get_open(goal_id)
            asked = await self._resolve_links(old.model_copy(update={"blocked_by": blockers}))
            expects = await self._check_links(asked, ["blocked_by"])
            named = tuple(dict.fromkeys((*old.blocked_by, *asked.blocked_by)))
            new = old.model_copy(update={"goal_status": "blocked", "blocked_by": named})
            return write.build_change(new, expected_versions={**expects, old.key: old.seq})

        said = {"id": goal_id, "by": blockers}
        return await self._context.write(Goal, "block_goal", make, idempotency_key=idempotency_key, given=said)

    async def unblock(
        self, goal_id: str, by: str | Sequence[str] | None = None, *, idempotency_key: str | None = None
    ) -> Goal:
        """Stop waiting for these goals, or for all when none is named; without a blocker the goal is active again."""
        named = None if by is None else _normalize_ids(by)

        async def make(write: WriteAttempt) -> Change:
            old = await self._get_open(goal_id)
            if old.goal_status != "blocked":
                raise InvalidRecord(f"goal {goal_id!r} is not blocked", field="goal_id")
            ended = await self._context.resolve_ids("Goal", named or ())
            for name in ended:
                if name not in old.blocked_by:
                    raise InvalidRecord(f"by: goal {goal_id!r} is not blocked by {name!r}", field="by")
            left = () if named is None else tuple(name for name in old.blocked_by if name not in ended)
            new = old.model_copy(update={"blocked_by": left, "goal_status": "blocked" if left else "active"})
            return write.build_change(new, expected_versions={old.key: old.seq})

        said = {"id": goal_id, "by": named}
        return await self._context.write(Goal, "unblock_goal", make, idempotency_key=idempotency_key, given=said)

    # -- looking

    @audit_read
    async def all(self, status: GoalStatus | None = None) -> list[Goal]:
        """Goals of the readable channels, of one status or all but forgotten ones: open first, most urgent first."""
        if status is not None and status not in STATUSES:
            raise InvalidRecord(
                f"status must be one of {', '.join(STATUSES)}, got {describe_value(status)}", field="status"
            )
        return await self._list_goals(status)

    async def _list_goals(self, status: GoalStatus | None = None) -> list[Goal]:
        found = [
            goal
            for goal in await self._context.list_readable("Goal")
            if isinstance(goal, Goal) and goal.superseded_at is None
        ]
        return sorted((goal for goal in found if status in (None, goal.goal_status)), key=_urgency_key)

    @audit_read
    async def active(self) -> list[Goal]:
        """Active goals of the readable channels, most urgent first (priority 5 to 1, then oldest)."""
        return await self._list_goals("active")

    @audit_read
    async def overdue(self) -> list[Goal]:
        """Open goals of the readable channels whose deadline has passed by now, most urgent first."""
        now = await self._context.engine.now(self._context.scope)
        return [goal for goal in await self._list_goals() if goal.is_overdue(now)]

    @audit_read
    async def for_conversation(self, conversation_id: str | None = None) -> list[Goal]:
        """Goals that came up in a conversation, or (None) in the current one; [] when there is none."""
        wanted = self._context.scope.conversation_id if conversation_id is None else conversation_id
        return [goal for goal in await self._list_goals() if wanted is not None and goal.conversation_id == wanted]

    @audit_read
    async def sub_goals(self, goal_id: str, depth: int = 5) -> list[GoalNode]:
        """The goals below a goal as a tree, `depth` (1 to 10) levels of it; [] when it has none."""
        if not 1 <= depth <= MAX_DEPTH:
            raise InvalidRecord(f"depth must be between 1 and {MAX_DEPTH}, got {depth}", field="depth")
        goal = await self.get(goal_id)
        return build_trees(goal.id, await self._list_goals(), depth)

    # -- the one at hand

    async def find_active_in_conversation(self) -> Goal | None:
        """The active goal of the current conversation; None when there is none."""
        found = await self._list_active_in_conversation(self._context.scope.conversation_id or "")
        return max((goal for goal in found if goal.is_open), key=lambda goal: goal.seq, default=None)

    async def set_active_in_conversation(
        self, goal_id: str | None, *, idempotency_key: str | None = None
    ) -> Goal | None:
        """Make an open goal the active one of the current conversation; None leaves it without one."""
        conversation = self._context.ensure_conversation_id()

        async def make(write: WriteAttempt) -> Change | None:
            chosen = [] if goal_id is None else [await self._get_open(goal_id)]
            others = [
                goal
                for goal in await self._list_active_in_conversation(conversation)
                if goal.id not in {g.id for g in chosen}
            ]
            puts = [goal.model_copy(update={"pursued_in": conversation}) for goal in chosen]
            found[:] = puts
            # with a key, its use is noted by a version all the same
            if puts == chosen and not others and idempotency_key is None:
                return None
            puts += [goal.model_copy(update={"pursued_in": ""}) for goal in others]
            return write.build_change(*puts, expected_versions=_expected_versions([*chosen, *others]))

        found: list[Goal] = []
        given = {"id": goal_id, "conversation": conversation}
        entry = await self._context.write_entry("Goal", "pursue_goal", make, idempotency_key, given)
        if goal_id is None:
            return None
        return found[-1] if entry is None else get_written_record(entry, Goal)

    def pursue(self, description: str, **fields: Any) -> GoalSession:
        """Pursue a new goal for the length of a block: `async with memory.goals.pursue("book a flight") as goal:`

        It is the active goal inside. At the end it is completed, at an error abandoned with the reason, its open
        sub-goals with it; the goal that was active before is active again. `fields` are fields of Goal.
        """
        return GoalSession(self, {**fields, "description": description})

    # -- reading and writing

    async def _read_goals(self, ids: Sequence[str]) -> list[Goal]:
        found = await self._context.engine.log.read_records("Goal", ids, self._context.scope) if ids else []
        return [goal for goal in found if isinstance(goal, Goal)]

    async def _list_across_channels(self) -> list[Goal]:
        """All goals of the user, in every channel: an agent may wait for what another one completes."""
        pages = self._context.iter_pages(Where(kinds=("Goal",)))
        return [goal async for page in pages for goal in page if isinstance(goal, Goal)]

    async def _list_active_in_conversation(self, conversation_id: str) -> list[Goal]:
        if not conversation_id:
            return []
        where = Where(kinds=("Goal",), channels=self._context.scope.readable_channels(), dedup_keys=(conversation_id,))
        return [
            goal for goal in await self._context.engine.log.find(self._context.scope, where) if isinstance(goal, Goal)
        ]


class GoalSession:
    """A goal for the length of a block; see `Goals.pursue`."""

    def __init__(self, goals: Goals, fields: Mapping[str, Any]) -> None:
        self._goals, self._fields = goals, fields
        self._goal: Goal | None = None
        self._previous_goal: Goal | None = None

    async def __aenter__(self) -> Goal:
        """Store the goal as the active one."""
        self._previous_goal = await self._goals.find_active_in_conversation()
        self._goal = await self._goals._add(
            self._fields, active_in_conversation=self._goals._context.ensure_conversation_id()
        )
        return self._goal

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Complete or abandon the goal, unless that was done inside."""
        assert self._goal is not None
        if error is None:
            await self._finish("completed", "")
            return
        try:
            await self._finish("abandoned", f"{type(error).__name__}: {error}"[:1000])
        except Exception as late:  # noqa: BLE001 - what happened inside is what the caller must see
            error.add_note(f"its goal {self._goal.id} could not be abandoned: {late}")

    async def _finish(self, status: FinalGoalStatus, result: str) -> None:
        assert self._goal is not None
        now = await self._goals._read_goals([self._goal.id])
        if now and now[0].is_open:
            await self._goals._end(self._goal.id, status, result, cascade=True, previous=self._previous_goal)
        elif self._previous_goal is not None and await self._goals.find_active_in_conversation() is None:
            before = await self._goals._read_goals([self._previous_goal.id])
            if before and before[0].is_open:
                await self._goals.set_active_in_conversation(before[0].id)


def _expected_versions(goals: Sequence[Goal]) -> dict[Key, int | None]:
    return {goal.key: goal.seq for goal in goals}


def _normalize_ids(by: str | Sequence[str]) -> tuple[str, ...]:
    names = (by,) if isinstance(by, str) else tuple(by)
    if not names or not all(isinstance(name, str) for name in names):
        raise InvalidRecord(f"by must name goals by id, got {describe_value(by)}", field="by")
    return tuple(dict.fromkeys(names))


def _urgency_key(goal: Goal) -> tuple[bool, int, int]:
    return not goal.is_open, -goal.priority, goal.seq
