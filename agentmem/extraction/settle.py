"""A draft is settled with what is known: one Change for a window, or nothing of it.

Sources are expected where they stood, and the glosses to be absent: so no turn is extracted twice, whoever tries, and
nothing rests on a turn that was forgotten meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any

from agentmem.extraction import Draft, EntityDraft, FactDraft, GlossDraft, Window
from agentmem.extraction.judge import Judge, Verdict
from agentmem.extraction.known import Known
from agentmem.extraction.naming import PERSON, Naming
from agentmem.extraction.similar import RELATED, says_the_same
from agentmem.memory import Seat
from agentmem.memory.episodic import IMPORTED
from agentmem.memory.semantic import Semantic
from agentmem.model.changes import Change, Write
from agentmem.model.edges import mentioned, related
from agentmem.model.records import Entity, Fact, Gloss, Key, Record, Review, Turn, build
from agentmem.model.scope import self_channel
from agentmem.stores import Where
from agentmem.text.names import claim_hash, normalised_claim
from agentmem.text.query import without_names

CONFIDENCE: Mapping[str, float] = MappingProxyType({
    "explicit": 0.95, "implied": 0.85, "inferred": 0.70, "uncertain": 0.50
})  # fmt: skip
UNKNOWN_CONFIDENCE = 0.70
TRUST: Mapping[str, float] = MappingProxyType({"user": 1.0, "import": 0.9, "agent": 0.8, "tool": 0.7})
UNSURE = frozenset({"inferred", "uncertain"})
RULES = "rules"


@dataclass
class Settling:
    """One draft of one window. `change` may be asked again: what a model said before is not asked twice."""

    seat: Seat
    window: Window
    draft: Draft
    extractor: str
    rules: bool = False
    judge: Judge | None = None
    counts: dict[str, int] = field(default_factory=dict)
    retired: dict[str, int] = field(default_factory=dict)  # where forgotten glosses of these turns stand

    async def change(self, write: Write) -> Change | None:
        """The Change that makes the draft known; None when others extracted all of these turns meanwhile."""
        turns = await self._turns()
        if not turns:
            return None
        work = _Work(self, write, turns)
        await work.name_all()
        await work.learn_all()
        work.relate_all()
        work.gloss_all()
        self.counts = work.counted()
        return work.change()

    async def _turns(self) -> dict[str, Turn]:
        """The turns that are still there and not extracted."""
        log, scope, ids = self.seat.resources.log, self.seat.scope, [turn.id for turn in self.window.turns]
        glosses = await log.get("Gloss", ids, scope)
        done = {record.id for record in glosses if record.superseded_at is None}
        self.retired = {record.id: record.seq for record in glosses if record.id not in done}
        found = await log.get("Turn", [name for name in ids if name not in done], scope)
        return {turn.id: turn for turn in found if isinstance(turn, Turn) and turn.superseded_at is None}


@dataclass
class _Work:
    """One attempt. `puts` are the records so far, each once, `expects` where those that were read stood."""

    settling: Settling
    write: Write
    turns: Mapping[str, Turn]
    puts: dict[Key, Record] = field(default_factory=dict)
    ensures: dict[Key, Record] = field(default_factory=dict)
    expects: dict[Key, int | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.seat = self.settling.seat
        self.window, self.draft = self.settling.window, self.settling.draft
        self.semantic = Semantic(self.seat)
        self.known = Known(self.seat)
        self.new_id = self.seat.resources.ids.new
        self.expects.update({turn.key: turn.seq for turn in self.turns.values()})

    # -- names

    async def name_all(self) -> None:
        """Find out whom and what the names mean."""
        stored = await self.seat.all("Entity", channels=[self.window.channel])
        current = [record for record in stored if isinstance(record, Entity) and record.superseded_at is None]
        self.naming = Naming(self.seat.scope.user_id, self.window.channel, current)
        drafts = [draft for draft in self.draft.entities if draft.turn_id in self.turns]
        alike = await self._alike([d for d in drafts if d.type != PERSON and not self.naming.knows(d)])
        meant = [self.naming.learn(draft, self.new_id(), alike.get(draft.name, ())) for draft in drafts]
        first: dict[str, str] = {}
        for draft, entity_id in zip(drafts, meant, strict=True):
            first.setdefault(entity_id, draft.turn_id)
        by_id = {entity.id: entity for entity in current}
        for entity in self.naming.grown.values():
            self._put(entity, by_id[entity.id].seq)
        for entity in self.naming.fresh.values():
            self._put(entity.model_copy(update={"first_seen": self._said(first[entity.id])}), None)
        for review in self.naming.reviews:
            self._put(review, None)
        for draft, entity_id in zip(drafts, meant, strict=True):
            if entity_id:
                self._ensure(mentioned(self.seat.scope.user_id, self.window.channel, draft.turn_id, entity_id))

    async def _alike(self, drafts: Sequence[EntityDraft]) -> dict[str, list[tuple[Entity, float]]]:
        """Known entities like these new names; none for an embedder that sees words alone."""
        served = self.seat.resources.vectors[:1]
        if not drafts or not served or served[0].embedder.identity.startswith("hash:"):
            return {}
        texts = [Entity(name=draft.name, description=draft.description).searchable() for draft in drafts]
        found = await self.known.near(texts, Entity)
        return {draft.name: each for draft, each in zip(drafts, found, strict=True)}

    # -- facts

    async def learn_all(self) -> None:
        """Learn each fact, once however often it is said, in the place of what it replaces."""
        drafts: dict[str, FactDraft] = {}
        for draft in self.draft.facts:
            if draft.turn_id in self.turns:
                drafts.setdefault(claim_hash(draft.claim), draft)
        sure = [draft for draft in drafts.values() if not draft.doubt]
        for draft in drafts.values():
            if draft.doubt:
                await self._review(draft, "ungrounded" if draft.span is None else "doubtful", draft.doubt)
        near = dict(zip(
            [draft.claim for draft in sure], await self.known.near([draft.claim for draft in sure], Fact), strict=True
        ))  # fmt: skip
        verdicts = await self._verdicts(sure, near)
        for draft in sure:
            await self._learn(draft, near[draft.claim], verdicts.get(draft.claim, []))

    async def _verdicts(
        self, drafts: Sequence[FactDraft], near: Mapping[str, Sequence[tuple[Fact, float]]]
    ) -> dict[str, list[tuple[Fact, Verdict]]]:
        """What a model says of facts that a new one may contradict, where there is a model to ask."""
        if self.settling.judge is None:
            return {}
        pairs: dict[str, list[Fact]] = {}
        for draft in drafts:
            mine = set(self.naming.ids(draft.entities))
            found = [
                fact for fact, cosine in near[draft.claim]
                if normalised_claim(fact.claim) != normalised_claim(draft.claim)
                and (cosine >= RELATED or mine & set(fact.entity_ids)) and fact.id != draft.replaces
            ]  # fmt: skip
            if found and not draft.replaces and not draft.ended:
                pairs[draft.claim] = found
        said = await self.settling.judge.verdicts(pairs) if pairs else {}
        return {claim: [(fact, said[claim, fact.id]) for fact in facts if (claim, fact.id) in said]
                for claim, facts in pairs.items()}  # fmt: skip

    async def _learn(
        self, draft: FactDraft, near: Sequence[tuple[Fact, float]], verdicts: Sequence[tuple[Fact, Verdict]]
    ) -> None:
        fields = self._fields(draft)
        fact = build(Fact, channel=self._channel(draft), claim=draft.claim, **fields)
        same = [known for known, cosine in near if known.channel == fact.channel and says_the_same(fact, known, cosine)]
        claim = same[0].claim if same else draft.claim
        if any(verdict.word == "prefer_old" for _, verdict in verdicts):
            return await self._review(draft, "doubtful", "What was known before is better founded.")
        if (unclear := [known for known, verdict in verdicts if verdict.word == "flag_review"]) and not same:
            return await self._review(draft, "contradiction", "Both cannot hold.", unclear[0])
        replaced = [(known, verdict.wrong) for known, verdict in verdicts if verdict.word == "prefer_new"]
        replaced += [(known, draft.wrong) for known in self.window.facts if known.id == draft.replaces]
        for known, wrong in replaced[:1] if not same else ():
            if draft.certainty in UNSURE or fields["trust"] < known.trust:
                return await self._review(
                    draft, "correction" if wrong else "contradiction", "It is not sure enough.", known
                )
            return await self._supersede(draft, known, wrong)
        if ended := [known for known in self.window.facts if known.id == draft.ended]:
            await self._end(ended[0], draft)
        checked, _ = await self.semantic.change_to_learn(self.write, claim, _unlinked(fields), fact.channel)
        return await self._take(checked, draft, fields)

    async def _supersede(self, draft: FactDraft, known: Fact, wrong: bool) -> None:
        """Put the fact in the place of the one it replaces, from when it was said on."""
        old = await self.semantic.latest(known.id)
        fields = self._fields(draft)
        fields["valid_from"] = fields.get("valid_from") or (None if wrong else self._said(draft.turn_id))
        change = await self.semantic.change_to_supersede(
            self.write, old, draft.claim, _unlinked(fields), wrong=wrong, channel=old.channel
        )
        await self._take(change, draft, fields, about=known)

    async def _end(self, known: Fact, draft: FactDraft) -> None:
        """Let a fact end in the world when it was said to be over."""
        current = await self.semantic.latest(known.id)
        end = draft.valid_to or draft.valid_from or self._said(draft.turn_id)
        begun = current.valid_from is None or end is None or end > current.valid_from
        if current.valid_to is None and begun and current.key not in self.puts:
            self._put(current.model_copy(update={"valid_to": end}), current.seq)

    async def _take(
        self, change: Change, draft: FactDraft, fields: Mapping[str, Any], about: Fact | None = None
    ) -> None:
        """Add what a fact changes; a fact that this window changed already is a question."""
        if any(record.key in self.puts for record in change.puts):
            return await self._review(draft, "contradiction", "Two things are said of it at once.", about)
        first, *rest = change.puts
        assert isinstance(first, Fact)
        entities = tuple(dict.fromkeys((*first.entity_ids, *fields["entity_ids"])))
        for record in (first.model_copy(update={"entity_ids": entities}), *rest):
            self.puts[record.key] = record
        self.expects.update(change.expects)
        return None

    async def _review(self, draft: FactDraft, about: str, why: str, known: Fact | None = None) -> None:
        """Ask a person. The same question stands once, however often it comes up."""
        fields = self._fields(draft)
        if about == "contradiction" and known is not None:  # if it is so, then from when it was said on
            fields["valid_from"] = fields["valid_from"] or self._said(draft.turn_id)
        proposed = {
            name: value.isoformat() if isinstance(value, datetime) else value
            for name, value in {"claim": draft.claim, **fields}.items() if value not in (None, "", ())
        }  # fmt: skip
        against = f" Known: {known.claim!r}." if known is not None else ""
        review = build(
            Review, id=self.new_id(), channel=self._channel(draft), about=about,
            question=f"Is it so that {draft.claim!r}? {why}{against}", proposed=proposed,
            record_ids=() if known is None else (known.id,), source_turn_ids=(draft.turn_id,),
        )  # fmt: skip
        where = Where(kinds=("Review",), channels=(review.channel,), key=(review.unique(),))
        asked = {record.unique() for record in self.puts.values() if isinstance(record, Review)}
        if review.unique() not in asked and not await self.seat.resources.log.count(self.seat.scope, where):
            self._put(review, None)

    def _fields(self, draft: FactDraft) -> dict[str, Any]:
        """What a draft says of a fact beside the claim, and what follows from who said it."""
        source = _source(self.turns[draft.turn_id])
        spans = () if draft.span is None else ((draft.turn_id, *draft.span),)
        known = {fact.id for fact in self.window.facts}
        return {
            "confidence": CONFIDENCE.get(draft.certainty, UNKNOWN_CONFIDENCE), "certainty": draft.certainty,
            "source": RULES if self.settling.rules else source, "trust": TRUST[source], "subject": draft.subject,
            "temporal_context": draft.temporal_context, "memory_type": draft.memory_type,
            "tier": "short" if draft.memory_type == "context" else "long", "tags": draft.tags,
            "valid_from": draft.valid_from, "valid_to": draft.valid_to,
            "entity_ids": self.naming.ids(draft.entities), "source_turn_ids": (draft.turn_id,), "source_spans": spans,
            "depends_on": tuple(name for name in dict.fromkeys(draft.depends_on) if name in known),
        }  # fmt: skip

    def _channel(self, draft: FactDraft) -> str:
        agent = self.window.agent_id
        return self_channel(agent) if draft.private and agent is not None else self.window.channel

    # -- relations and glosses

    def relate_all(self) -> None:
        """State the relations between what was named."""
        for draft in self.draft.relations:
            source, target = self.naming.meant(draft.source), self.naming.meant(draft.target)
            if draft.turn_id in self.turns and source is not None and target is not None and source != target:
                user_id = self.seat.scope.user_id
                self._ensure(related(user_id, self.window.channel, (source, target), draft.kind))

    def gloss_all(self) -> None:
        """Give each turn its gloss, an empty one where nothing was said of it: it marks the turn as extracted."""
        said = {draft.turn_id: draft for draft in self.draft.glosses}
        for turn in self.turns.values():
            draft = said.get(turn.id, GlossDraft(turn_id=turn.id))
            gloss = build(
                Gloss, id=turn.id, channel=turn.channel, conversation_id=turn.conversation_id,
                standalone=draft.standalone, keys=draft.keys,
                source_turn_ids=tuple(dict.fromkeys((turn.id, *draft.leans_on))), extractor=self.settling.extractor,
            )  # fmt: skip
            text = gloss.searchable()
            bare = without_names(text, self.window.participants) if text else ""
            bared = gloss.model_copy(update={"bare": bare if bare != text else ""})
            self._put(bared, self.settling.retired.get(turn.id))

    # -- the whole

    def change(self) -> Change:
        """All of it."""
        return self.write.change(*self.puts.values(), ensures=tuple(self.ensures.values()), expects=self.expects)

    def counted(self) -> dict[str, int]:
        """How many records of each kind there are."""
        counts: dict[str, int] = {}
        for record in self.puts.values():
            counts[record.kind] = counts.get(record.kind, 0) + 1
        return counts

    def _put(self, record: Record, seq: int | None) -> None:
        self.puts[record.key] = record
        self.expects[record.key] = seq

    def _ensure(self, record: Record) -> None:
        """Write a record where there is none of its id."""
        self.ensures.setdefault(record.key, record)

    def _said(self, turn_id: str) -> datetime | None:
        turn = self.turns[turn_id]
        return turn.timestamp or turn.recorded_at


def _source(turn: Turn) -> str:
    """Whose word a turn is."""
    if turn.role in ("assistant", "agent"):
        return "agent"
    if turn.role == "tool":
        return "tool"
    return "import" if turn.metadata.get(IMPORTED) else "user"


def _unlinked(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Without the entities, some of which are written with the fact, and without what was not said."""
    return {name: value for name, value in fields.items() if name != "entity_ids" and value is not None}
