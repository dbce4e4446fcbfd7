"""A draft is settled with what is known: one Change for a window, or nothing of it.

What it rests on, is about or quotes is expected where it stood when it was first read, and the glosses to be absent: so
no turn is extracted twice, whoever tries, and nothing is left of what was forgotten meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any

from agentmem.errors import InvalidRecord
from agentmem.extraction import Draft, EntityDraft, FactDraft, GlossDraft, Window
from agentmem.extraction.judge import Judge, Verdict
from agentmem.extraction.known import Known
from agentmem.extraction.naming import PERSON, Naming
from agentmem.extraction.similar import RELATED, says_the_same
from agentmem.memory import Seat
from agentmem.memory.episodic import IMPORTED
from agentmem.memory.facts import with_sources
from agentmem.memory.semantic import Semantic
from agentmem.model.changes import Change, Write
from agentmem.model.edges import mentioned, related
from agentmem.model.records import Entity, Fact, Gloss, Key, Record, Review, Status, Turn, build
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
        await work.gloss_all()
        self.counts = work.counted()
        return work.change()

    async def _turns(self) -> dict[str, Turn]:
        """The turns that are still there and not extracted."""
        ids = [turn.id for turn in self.window.turns]
        glosses = await self.seat.resources.log.get("Gloss", ids, self.seat.scope)
        done = {record.id for record in glosses if record.superseded_at is None}
        self.retired = {record.id: record.seq for record in glosses if record.id not in done}
        return await self.standing([name for name in ids if name not in done])

    async def standing(self, ids: Sequence[str]) -> dict[str, Turn]:
        """Those of these turns that are there and not forgotten, by their ids."""
        found = await self.seat.resources.log.get("Turn", ids, self.seat.scope) if ids else []
        return {turn.id: turn for turn in found if isinstance(turn, Turn) and turn.superseded_at is None}


@dataclass
class _Work:
    """One attempt. `puts` are the records so far, each once, `expects` where those that were read stood at first."""

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
        self.saying: dict[str, list[FactDraft]] = {}  # by the hash of a claim: the first for sure, then other turns'
        self._expect(self.turns.values())

    # -- names

    async def name_all(self) -> None:
        """Find out whom and what the names mean."""
        stored = await self.seat.all("Entity", channels=[self.window.channel])
        current = [record for record in stored if isinstance(record, Entity) and record.superseded_at is None]
        self.entities = {entity.id: entity for entity in current}
        self.naming = Naming(self.seat.scope.user_id, self.window.channel, current)
        drafts = [draft for draft in self.draft.entities if draft.turn_id in self.turns]
        alike = await self._alike([d for d in drafts if d.type != PERSON and not self.naming.knows(d)])
        meant = [self.naming.learn(draft, self.new_id(), alike.get(draft.name, ())) for draft in drafts]
        first: dict[str, str] = {}
        for draft, entity_id in zip(drafts, meant, strict=True):
            first.setdefault(entity_id, draft.turn_id)
        for entity in self.naming.grown.values():
            self._put(entity, self.entities[entity.id].seq)
        for entity in self.naming.fresh.values():
            self._put(entity.model_copy(update={"first_seen": self._said(first[entity.id])}), None)
        for review in self.naming.reviews:
            self._about(review.record_ids)
            self._put(review, None)
        for draft, entity_id in zip(drafts, meant, strict=True):
            if entity_id:
                self._about([entity_id])
                self._ensure(mentioned(self.seat.scope.user_id, self.window.channel, draft.turn_id, entity_id))

    async def _alike(self, drafts: Sequence[EntityDraft]) -> dict[str, list[tuple[Entity, float]]]:
        """Known entities of the channel like these new names; none for an embedder that sees words alone."""
        served = self.seat.resources.vectors[:1]
        if not drafts or not served or served[0].embedder.identity.startswith("hash:"):
            return {}
        texts = [Entity(name=draft.name, description=draft.description).searchable() for draft in drafts]
        found = await self.known.near(texts, Entity)
        here = [[(self.entities[one.id], cosine) for one, cosine in each if one.id in self.entities] for each in found]
        return {draft.name: each for draft, each in zip(drafts, here, strict=True)}

    def _about(self, ids: Sequence[str]) -> Sequence[str]:
        """These ids of entities, of which the known ones are to be what they were when their names were looked up."""
        self._expect(self.entities[name] for name in ids if name in self.entities)
        return ids

    # -- facts

    async def learn_all(self) -> None:
        """Learn each fact, once however often it is said, with all turns that say it, in the place of what it replaces.

        A person is asked only about what no turn says for sure.
        """
        for draft in sorted(self.draft.facts, key=lambda draft: bool(draft.doubt)):
            if draft.turn_id in self.turns:
                saying = self.saying.setdefault(claim_hash(draft.claim), [draft])
                seen = {other.turn_id for other in saying}
                if not draft.doubt and draft.private == saying[0].private and draft.turn_id not in seen:
                    saying.append(draft)
        drafts = [saying[0] for saying in self.saying.values()]
        sure = [draft for draft in drafts if not draft.doubt]
        for draft in drafts:
            if draft.doubt:
                await self._review(draft, "ungrounded" if draft.span is None else "doubtful", draft.doubt)
        near = dict(zip(
            [draft.claim for draft in sure], await self.known.near([draft.claim for draft in sure], Fact), strict=True
        ))  # fmt: skip
        verdicts = await self._verdicts(sure, near)
        self.targets = await self._targets(sure)
        for draft in sure:
            await self._learn(draft, near[draft.claim], verdicts.get(draft.claim, []))

    async def _targets(self, drafts: Sequence[FactDraft]) -> dict[str, Fact]:
        """Known facts that these replace or end, as they stand now; what was forgotten meanwhile is not known."""
        wanted = {name for draft in drafts for name in (draft.replaces, draft.ended)}
        ids = [fact.id for fact in self.window.facts if fact.id in wanted]
        found = await self.seat.resources.log.get("Fact", ids, self.seat.scope) if ids else []
        return {fact.id: fact for fact in found if isinstance(fact, Fact) and fact.status is not Status.FORGOTTEN}

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
        self._expect(same[:1])
        if older := [known for known, verdict in verdicts if verdict.word == "prefer_old"]:
            self._expect(older)
            return await self._review(draft, "doubtful", "What was known before is better founded.")
        if (unclear := [known for known, verdict in verdicts if verdict.word == "flag_review"]) and not same:
            return await self._review(draft, "contradiction", "Both cannot hold.", unclear[0])
        replaced = [(known, verdict.wrong) for known, verdict in verdicts if verdict.word == "prefer_new"]
        replaced += [(self.targets[draft.replaces], draft.wrong)] if draft.replaces in self.targets else []
        for known, wrong in replaced[:1] if not same else ():
            if draft.certainty in UNSURE or fields["trust"] < known.trust:
                return await self._review(
                    draft, "correction" if wrong else "contradiction", "It is not sure enough.", known
                )
            return await self._supersede(draft, known, wrong)
        if draft.ended in self.targets:
            await self._end(self.targets[draft.ended], draft)
        try:
            change, _ = await self.semantic.change_to_learn(self.write, claim, _unlinked(fields), fact.channel)
        except InvalidRecord as error:
            if error.field != "depends_on":
                raise
            ground = {**_unlinked(fields), "depends_on": ()}  # a premise that rests on this very claim grounds nothing
            change, _ = await self.semantic.change_to_learn(self.write, claim, ground, fact.channel)
        return await self._take(change, draft, fields)

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
        first, *rest = change.puts
        assert isinstance(first, Fact)
        twice = [put for record in change.puts if isinstance(put := self.puts.get(record.key), Fact)]
        if twice and not rest and twice[0].claim == first.claim:  # the same in other words
            first = with_sources(twice[0], first)
        elif twice:
            return await self._review(draft, "contradiction", "Two things are said of it at once.", about or twice[0])
        entities = tuple(dict.fromkeys((*first.entity_ids, *fields["entity_ids"])))
        for record in (first.model_copy(update={"entity_ids": entities}), *rest):
            self.puts[record.key] = record
        self.expects = {**change.expects, **self.expects}  # the turns may have been forgotten since they were read
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
        self._expect(() if known is None else (known,))
        against = f" Known: {known.claim!r}." if known is not None else ""
        review = build(
            Review, id=self.new_id(), channel=self._channel(draft), about=about,
            question=f"Is it so that {draft.claim!r}? {why}{against}", proposed=proposed,
            record_ids=() if known is None else (known.id,), source_turn_ids=fields["source_turn_ids"],
        )  # fmt: skip
        where = Where(kinds=("Review",), channels=(review.channel,), key=(review.unique(),))
        asked = {record.unique() for record in self.puts.values() if isinstance(record, Review)}
        if review.unique() not in asked and not await self.seat.resources.log.count(self.seat.scope, where):
            self._put(review, None)

    def _fields(self, draft: FactDraft) -> dict[str, Any]:
        """What a draft says of a fact beside the claim, and what follows from who said it."""
        source = _source(self.turns[draft.turn_id])
        saying = self.saying[claim_hash(draft.claim)]
        spans = tuple((each.turn_id, *each.span) for each in saying if each.span is not None)
        known = {fact.id for fact in self.window.facts}
        return {
            "confidence": CONFIDENCE.get(draft.certainty, UNKNOWN_CONFIDENCE), "certainty": draft.certainty,
            "source": RULES if self.settling.rules else source, "trust": TRUST[source], "subject": draft.subject,
            "temporal_context": draft.temporal_context, "memory_type": draft.memory_type,
            "tier": "short" if draft.memory_type == "context" else "long", "tags": draft.tags,
            "valid_from": draft.valid_from, "valid_to": draft.valid_to,
            "entity_ids": self._about(self.naming.ids(draft.entities)),
            "source_turn_ids": tuple(each.turn_id for each in saying), "source_spans": spans,
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
                self._about((source, target))
                self._ensure(related(user_id, self.window.channel, (source, target), draft.kind))

    async def gloss_all(self) -> None:
        """Give each turn its gloss, which marks it as extracted.

        It is empty where nothing was said of the turn, or what was said leans on a turn that was forgotten meanwhile.
        """
        said = {draft.turn_id: draft for draft in self.draft.glosses if draft.turn_id in self.turns}
        others = dict.fromkeys(name for draft in said.values() for name in draft.leans_on if name not in self.turns)
        leaned_on = await self.settling.standing(list(others))
        self._expect(leaned_on.values())
        for turn in self.turns.values():
            draft = said.get(turn.id, GlossDraft(turn_id=turn.id))
            if not {*self.turns, *leaned_on}.issuperset(draft.leans_on):
                draft = GlossDraft(turn_id=turn.id)
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
        self.expects.setdefault(record.key, seq)

    def _expect(self, records: Iterable[Record]) -> None:
        """Let these stand where they were read, or where an earlier reader saw them."""
        for record in records:
            self.expects.setdefault(record.key, record.seq)

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
