"""A draft is settled with what is known: one Change for a window, or nothing of it.

What it rests on, is about or quotes is expected where it stood when it was first read, and the glosses to be absent: so
no turn is extracted twice, whoever tries, and nothing is left of what was forgotten meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from agentmem.beliefs.slots import USER_SUBJECT
from agentmem.core.changes import Change, WriteAttempt
from agentmem.core.edges import build_mention, build_relation, edge_triple, find_stated_relation
from agentmem.core.lifecycle import DOUBTFUL
from agentmem.core.record import Key, Record, Status
from agentmem.core.records import PROFILE_ID, Edge, Entity, Fact, Gloss, Review, Turn, build_profile, build_record
from agentmem.core.scope import GLOBAL, self_channel
from agentmem.errors import InvalidRecord
from agentmem.extraction.contradiction import CandidateRetriever, ContradictionClassifier, ContradictionVerdict
from agentmem.extraction.doubt import list_changes
from agentmem.extraction.doubted_beliefs import ChangingTurn, date_claims, mark_doubted
from agentmem.extraction.drafts import ExtractionDraft, FactDraft, TurnSummaryDraft, Window
from agentmem.extraction.entity_resolution import EntityResolver, list_draft_texts
from agentmem.extraction.plain.claim_sentences import write_sentence
from agentmem.extraction.plain.slot_claim import SlotClaim
from agentmem.extraction.plain.turn_text import read_turn
from agentmem.memory.context import MemoryContext
from agentmem.memory.episodic import IMPORTED_MARK, LIMITED_MARK
from agentmem.memory.semantic.beliefs import (
    ClaimWords,
    find_open_event,
    name_event,
    read_beliefs,
    read_slot_facts,
    settle_fact,
)
from agentmem.memory.semantic.equal_claims import is_duplicate
from agentmem.memory.semantic.facts import find_global_copies, merge_sources
from agentmem.memory.semantic.memory import SemanticMemory
from agentmem.memory.semantic.slot_relations import find_ended_relations, restate_relation
from agentmem.stores.values import Where
from agentmem.text.normalization import hash_claim, normalize_claim
from agentmem.text.query_parser import strip_names
from agentmem.text.tokenizer import tokenize

CONFIDENCE_BY_CERTAINTY: Mapping[str, float] = MappingProxyType(
    {"explicit": 0.95, "implied": 0.85, "inferred": 0.70, "uncertain": 0.50, DOUBTFUL: 0.30}
)
DEFAULT_CONFIDENCE = 0.70
TRUST_BY_SOURCE: Mapping[str, float] = MappingProxyType({"user": 1.0, "import": 0.9, "agent": 0.8, "tool": 0.7})
# What changes a belief that is held already.
CHANGING_ACTIONS = frozenset({"end", "retire", "refine", "give up plan"})
LOW_CERTAINTIES = frozenset({"inferred", "uncertain"})
RULES_SOURCE = "rules"
_OWNER_TERMS = frozenset(tokenize("user agent assistant"))


@dataclass
class Reconciler:
    """One draft of one window. `change` may be asked again: what a model said before is not asked twice."""

    context: MemoryContext
    window: Window
    draft: ExtractionDraft
    extractor: str
    by_rules: bool = False
    classifier: ContradictionClassifier | None = None
    counts: dict[str, int] = field(default_factory=dict)
    confirmed: Sequence[Key] = ()  # facts known before that these turns say again
    retired_summary_seqs: dict[str, int] = field(default_factory=dict)  # where forgotten glosses of these turns stand

    async def build_change(self, write: WriteAttempt) -> Change | None:
        """The Change that makes the draft known; None when others extracted all of these turns meanwhile."""
        turns = await self._read_pending_turns()
        if not turns:
            return None
        work = _ChangeBuilder(self, write, turns)
        await work.resolve_entities()
        await work.add_facts()
        await work.add_doubts()
        await work.add_relations()
        await work.add_summaries()
        self.counts, self.confirmed = work.count_by_kind(), work.find_confirmed()
        return work.build_change()

    async def _read_pending_turns(self) -> dict[str, Turn]:
        """The turns that are still there and not extracted."""
        ids = [turn.id for turn in self.window.turns]
        glosses = await self.context.engine.log.read_records("Gloss", ids, self.context.scope)
        done = {record.id for record in glosses if record.superseded_at is None}
        self.retired_summary_seqs = {record.id: record.seq for record in glosses if record.id not in done}
        return await self.read_current_turns([name for name in ids if name not in done])

    async def read_current_turns(self, ids: Sequence[str]) -> dict[str, Turn]:
        """Those of these turns that are there and not forgotten, by their ids."""
        found = await self.context.engine.log.read_records("Turn", ids, self.context.scope) if ids else []
        return {turn.id: turn for turn in found if isinstance(turn, Turn) and turn.superseded_at is None}


@dataclass
class _ChangeBuilder:
    """One attempt. `upserts` are the records so far, each once, `expected_versions` where those that were read stood
    at first.
    """

    reconciler: Reconciler
    write: WriteAttempt
    turns: Mapping[str, Turn]
    upserts: dict[Key, Record] = field(default_factory=dict)
    inserts_if_absent: dict[Key, Record] = field(default_factory=dict)
    expected_versions: dict[Key, int | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.context = self.reconciler.context
        self.window, self.draft = self.reconciler.window, self.reconciler.draft
        self.semantic = SemanticMemory(self.context)
        self.retriever = CandidateRetriever(self.context)
        self.new_id = self.context.engine.ids.new_id
        # by the hash of a claim: the first for sure, then other turns'
        self.drafts_by_claim: dict[str, list[FactDraft]] = {}
        self.fact_ids: dict[str, str] = {}  # the result of a draft, by its name
        self._expect_unchanged(self.turns.values())

    # -- names

    async def resolve_entities(self) -> None:
        """Find out whom and what the names mean."""
        stored = await self.context.list_readable("Entity", channels=[self.window.channel])
        current = [record for record in stored if isinstance(record, Entity) and record.superseded_at is None]
        self.entities = {entity.id: entity for entity in current}
        self.resolver = EntityResolver(self.context.scope.user_id, self.window.channel, current)
        drafts = [draft for draft in self.draft.entities if draft.turn_id in self.turns]
        meant = [self.resolver.resolve_or_create(draft, self.new_id()) for draft in drafts]
        first: dict[str, str] = {}
        for draft, entity_id in zip(drafts, meant, strict=True):
            first.setdefault(entity_id, draft.turn_id)
        for entity in self.resolver.extended.values():
            self._upsert(entity, self.entities[entity.id].seq)
        for entity in self.resolver.created.values():
            self._upsert(entity.model_copy(update={"first_seen": self._stated_at(first[entity.id])}), None)
        said: dict[tuple[str, str], list[str]] = {}
        for draft, entity_id in zip(drafts, meant, strict=True):
            if entity_id:
                said.setdefault((draft.turn_id, entity_id), []).extend(list_draft_texts(draft))
        for (turn_id, entity_id), texts in said.items():
            self._expect_entities([entity_id])
            self._insert_if_absent(self._build_mention(turn_id, entity_id, texts))

    def _build_mention(self, turn_id: str, entity_id: str, texts: Iterable[str] = ()) -> Edge:
        return build_mention(self.context.scope.user_id, self.window.channel, turn_id, entity_id, texts)

    def _expect_entities(self, ids: Sequence[str]) -> Sequence[str]:
        """These ids of entities, of which the known ones are to be what they were when their names were looked up."""
        self._expect_unchanged(self.entities[name] for name in ids if name in self.entities)
        return ids

    # -- facts

    async def add_facts(self) -> None:
        """Learn each fact, once however often it is said, with all turns that say it, in the place of what it replaces.

        A person is asked only about what no turn says for sure.
        """
        beliefs = [draft for draft in self.draft.facts if draft.slot and draft.turn_id in self.turns]
        replaced = await self._read_target_facts(beliefs)
        for draft in beliefs:
            await self._add_belief(draft)
            for known in filter(None, map(replaced.get, (*draft.ends_fact_ids, draft.supersedes_id))):
                await self._end_fact(known, draft)
        for draft in sorted(self.draft.facts, key=lambda draft: bool(draft.review_reason)):
            if draft.turn_id in self.turns and not draft.slot:
                saying = self.drafts_by_claim.setdefault(hash_claim(draft.claim), [draft])
                seen = {other.turn_id for other in saying}
                if (
                    not draft.review_reason
                    and draft.agent_private == saying[0].agent_private
                    and draft.turn_id not in seen
                ):
                    saying.append(draft)
        # an open claim of a turn that gives orders changes nothing that is held: its turn stays findable
        sure = [saying[0] for saying in self.drafts_by_claim.values() if not saying[0].review_reason]
        near = dict(
            zip(
                [draft.claim for draft in sure],
                await self.retriever.find_similar([draft.claim for draft in sure], Fact),
                strict=True,
            )
        )
        verdicts = await self._classify_contradictions(sure, near)
        self.target_facts = await self._read_target_facts(sure)
        for draft in sure:
            await self._add_fact(draft, near[draft.claim], verdicts.get(draft.claim, []))

    async def _read_target_facts(self, drafts: Sequence[FactDraft]) -> dict[str, Fact]:
        """Known facts that these replace, end or doubt, as they stand now; what was forgotten is not known."""
        wanted = {name for each in drafts for name in (each.supersedes_id, *each.ends_fact_ids, *each.doubts_fact_ids)}
        ids = [fact.id for fact in self.window.known_facts if fact.id in wanted]
        found = await self.context.engine.log.read_records("Fact", ids, self.context.scope) if ids else []
        return {fact.id: fact for fact in found if isinstance(fact, Fact) and fact.status is not Status.FORGOTTEN}

    async def _classify_contradictions(
        self, drafts: Sequence[FactDraft], similar_by_claim: Mapping[str, Sequence[tuple[Fact, float]]]
    ) -> dict[str, list[tuple[Fact, ContradictionVerdict]]]:
        """What a model says of facts that a new one may contradict, where there is a model to ask."""
        if self.reconciler.classifier is None:
            return {}
        pairs: dict[str, list[Fact]] = {}
        for draft in (each for each in drafts if each.certainty != DOUBTFUL):
            mine = set(self.resolver.resolve_all(draft.entities))
            found = [
                fact
                for fact, _ in similar_by_claim[draft.claim]
                if normalize_claim(fact.claim) != normalize_claim(draft.claim)
                and _may_contradict(draft, fact, mine)
                and fact.id != draft.supersedes_id
            ]
            if found and not draft.supersedes_id and not draft.ends_fact_ids:
                pairs[draft.claim] = found
        said = await self.reconciler.classifier.classify(pairs) if pairs else {}
        return {
            claim: [(fact, said[claim, fact.id]) for fact in facts if (claim, fact.id) in said]
            for claim, facts in pairs.items()
        }

    async def _add_fact(
        self,
        draft: FactDraft,
        similar: Sequence[tuple[Fact, float]],
        verdicts: Sequence[tuple[Fact, ContradictionVerdict]],
    ) -> None:
        fields = self._build_fact_fields(draft)
        fact = build_record(Fact, channel=self._channel(draft), claim=draft.claim, **fields)
        same = [known for known, _ in similar if known.channel == fact.channel and is_duplicate(fact, known)]
        if same and draft.certainty == DOUBTFUL:
            return None
        claim = same[0].claim if same else draft.claim
        self._expect_unchanged(same[:1])
        if older := [known for known, verdict in verdicts if verdict.label == "prefer_old"]:
            self._expect_unchanged(older)
            return None  # its turn stays findable
        if (unclear := [known for known, verdict in verdicts if verdict.label == "flag_review"]) and not same:
            return await self._add_review(draft, "contradiction", "Both cannot hold.", unclear[0])
        replaced = [(known, verdict.is_correction) for known, verdict in verdicts if verdict.label == "prefer_new"]
        replaced += (
            [(self.target_facts[draft.supersedes_id], draft.is_correction)]
            if draft.supersedes_id in self.target_facts
            else []
        )
        for ended in filter(None, map(self.target_facts.get, draft.ends_fact_ids)):
            await self._end_fact(ended, draft)
        for known, wrong in replaced[:1] if not same else ():
            if draft.certainty in LOW_CERTAINTIES or fields["trust"] < known.trust:
                return await self._add_review(draft, "contradiction", "It is not sure enough.", known)
            return await self._supersede(draft, known, wrong)
        try:
            change, _ = await self.semantic.build_learn_change(
                self.write, claim, _without_entity_ids(fields), fact.channel
            )
        except InvalidRecord as error:
            if error.field != "depends_on":
                raise
            # a premise that rests on this very claim grounds nothing
            ground = {**_without_entity_ids(fields), "depends_on": ()}
            change, _ = await self.semantic.build_learn_change(self.write, claim, ground, fact.channel)
        return await self._merge_change(change, draft, fields)

    async def _add_belief(self, draft: FactDraft) -> None:
        """Settle a claim about a slot; claims of one window see each other, in the order in which they were said.

        What is meant for everywhere changes what every channel reads, where that holds the slot, and not from a turn
        whose key reaches no further than its channel.
        """
        own = self._channel(draft)
        held = await self._read_held(draft, GLOBAL) if not own.startswith("_") else []
        if not draft.value and draft.operation != "is" and len(held) == 1 and not await self._read_held(draft, own):
            draft = replace(draft, value=held[0].value)
        if not (draft.is_general and held) or self.turns[draft.turn_id].metadata.get(LIMITED_MARK):
            return await self._settle_belief(draft, own)
        if await self._read_held(draft, own):
            await self._settle_belief(draft, own)
        return await self._settle_belief(draft, GLOBAL)

    async def _read_held(self, draft: FactDraft, channel: str) -> list[Fact]:
        """What a channel holds, or plans, of the slot and subject of a claim."""
        pending = self._list_pending()
        found = await read_slot_facts(self.context, channel, draft.subject or USER_SUBJECT, draft.slot, pending)
        return [fact for fact in found if not fact.superseded_at and not fact.valid_to and not fact.is_denied]

    def _list_pending(self) -> list[Fact]:
        return [record for record in self.upserts.values() if isinstance(record, Fact)]

    async def _settle_belief(self, draft: FactDraft, channel: str) -> None:
        fields = self._build_fact_fields(draft, [draft])
        ends = self.resolver.resolve_ends(draft)
        for entity_id in self._expect_entities([name for name in ends.values() if name]):
            self._insert_if_absent(self._build_mention(draft.turn_id, entity_id))
        fields["entity_ids"] = tuple(dict.fromkeys((*fields["entity_ids"], *filter(None, ends.values()))))
        said_at = {"slot": draft.slot, "value": draft.value, "said_at": self._stated_at(draft.turn_id)}
        fact = build_record(Fact, channel=channel, claim=draft.claim, **fields).model_copy(update={**said_at, **ends})
        pending, words = self._list_pending(), ClaimWords(draft.operation, draft.mark)
        if draft.slot.startswith(("date:", "flight:")):
            named = await find_open_event(self.context, fact, pending)
            if named is None and draft.slot.endswith(":?"):
                return None
            fact = name_event(fact, named) if named is not None else fact
        settled = await settle_fact(self.context, fact, words, self.write.now, pending)
        if draft.review_reason:
            changes = [fact for fact in settled.facts if fact.seq and settled.decision.action in CHANGING_ACTIONS]
            return await self._add_review(draft, "doubtful", draft.review_reason, changes[0]) if changes else None
        if draft.name and settled.facts:
            self.fact_ids[draft.name] = settled.facts[0].id
        known_entities = {**self.entities, **self.resolver.created}
        for edge in await find_ended_relations(self.context, settled.facts, known_entities):
            self.upserts[edge.key] = edge
            self.expected_versions.setdefault(edge.key, edge.seq)
        for changed in settled.facts:
            self.upserts[changed.key] = changed
            self.expected_versions.setdefault(changed.key, changed.seq or None)
        if settled.review is not None:
            asked = {record.dedup_key() for record in self.upserts.values() if isinstance(record, Review)}
            if settled.review.dedup_key() not in asked:
                self._upsert(settled.review, None)
        return None

    async def _supersede(self, draft: FactDraft, known: Fact, is_correction: bool) -> None:
        """Put the fact in the place of the one it replaces, from when it was said on."""
        old = await self.semantic.get_current_successor(known.id)
        fields = self._build_fact_fields(draft)
        fields["valid_from"] = fields.get("valid_from") or (None if is_correction else self._stated_at(draft.turn_id))
        change = await self.semantic.build_supersede_change(
            self.write, old, draft.claim, _without_entity_ids(fields), is_correction=is_correction, channel=old.channel
        )
        await self._merge_change(change, draft, fields, replaced_fact=known)

    async def _end_fact(self, known: Fact, draft: FactDraft) -> None:
        """Let a fact end in the world when it was said to be over; a belief by the decision table."""
        if known.slot:
            over = SlotClaim(subject=known.subject, slot=known.slot, value=known.value, operation="over")
            return await self._add_belief(
                replace(
                    draft,
                    claim=write_sentence(over, "The user" if known.subject == USER_SUBJECT else known.subject),
                    subject=known.subject,
                    slot=known.slot,
                    value=known.value,
                    operation="over",
                    mark="",
                    temporal_context="future" if known.temporal_context == "future" else "past",
                    name="",
                    depends_on=(),
                )
            )
        current = await self.semantic.get_current_successor(known.id)
        end = draft.valid_to or draft.valid_from or self._stated_at(draft.turn_id)
        begun = current.valid_from is None or end is None or end > current.valid_from
        if current.valid_to is None and begun and current.key not in self.upserts:
            self._upsert(current.model_copy(update={"valid_to": end}), current.seq)
        return None

    async def _merge_change(
        self, change: Change, draft: FactDraft, fields: Mapping[str, Any], replaced_fact: Fact | None = None
    ) -> None:
        """Add what a fact changes; a fact that this window changed already is a question."""
        first, *rest = change.upserts
        assert isinstance(first, Fact)
        twice = [put for record in change.upserts if isinstance(put := self.upserts.get(record.key), Fact)]
        if twice and not rest and twice[0].claim == first.claim:  # the same in other words
            first = merge_sources(twice[0], first)
        elif twice:
            return await self._add_review(
                draft, "contradiction", "Two things are said of it at once.", replaced_fact or twice[0]
            )
        entities = tuple(dict.fromkeys((*first.entity_ids, *fields["entity_ids"])))
        if draft.name:
            self.fact_ids[draft.name] = first.id
        for record in (first.model_copy(update={"entity_ids": entities}), *rest):
            self.upserts[record.key] = record
        # the turns may have been forgotten since they were read
        self.expected_versions = {**change.expected_versions, **self.expected_versions}
        return None

    async def _add_review(self, draft: FactDraft, about: str, reason: str, known: Fact | None = None) -> None:
        """Ask a person. The same question stands once, however often it comes up."""
        fields = self._build_fact_fields(draft)
        if about == "contradiction" and known is not None:  # if it is so, then from when it was said on
            fields["valid_from"] = fields["valid_from"] or self._stated_at(draft.turn_id)
        proposed = {
            name: value.isoformat() if isinstance(value, datetime) else value
            for name, value in {"claim": draft.claim, **fields}.items()
            if value not in (None, "", ())
        }
        if draft.slot:
            said_at = self._stated_at(draft.turn_id)
            proposed |= {"slot": draft.slot, "value": draft.value}
            proposed |= {"said_at": said_at.isoformat()} if said_at else {}
        self._expect_unchanged(() if known is None else (known,))
        against = f" Known: {known.claim!r}." if known is not None else ""
        review = build_record(
            Review,
            id=self.new_id(),
            channel=self._channel(draft),
            about=about,
            question=f"Is it so that {draft.claim!r}? {reason}{against}",
            proposed=proposed,
            record_ids=() if known is None else (known.id,),
            source_turn_ids=fields["source_turn_ids"],
        )
        where = Where(kinds=("Review",), channels=(review.channel,), dedup_keys=(review.dedup_key(),))
        asked = {record.dedup_key() for record in self.upserts.values() if isinstance(record, Review)}
        if review.dedup_key() not in asked and not await self.context.engine.log.count(self.context.scope, where):
            self._upsert(review, None)

    def _build_fact_fields(self, draft: FactDraft, saying: Sequence[FactDraft] = ()) -> dict[str, Any]:
        """What a draft says of a fact beside the claim, and what follows from who said it, in `saying` turns."""
        source = _source(self.turns[draft.turn_id])
        saying = saying or self.drafts_by_claim.get(hash_claim(draft.claim), [draft])
        spans = tuple((each.turn_id, *each.span) for each in saying if each.span is not None)
        known = {fact.id: fact.id for fact in self.window.known_facts} | self.fact_ids
        return {
            "confidence": CONFIDENCE_BY_CERTAINTY.get(draft.certainty, DEFAULT_CONFIDENCE),
            "certainty": draft.certainty,
            "source": RULES_SOURCE if self.reconciler.by_rules else source,
            "trust": TRUST_BY_SOURCE[source],
            "subject": draft.subject,
            "temporal_context": draft.temporal_context,
            "memory_type": draft.memory_type,
            "tier": "short" if draft.memory_type == "context" else "long",
            "tags": draft.tags,
            "valid_from": draft.valid_from,
            "valid_to": draft.valid_to,
            "entity_ids": self._expect_entities(self.resolver.resolve_all(draft.entities)),
            "source_turn_ids": tuple(each.turn_id for each in saying),
            "source_spans": spans,
            "depends_on": tuple(dict.fromkeys(known[name] for name in draft.depends_on if name in known)),
        }

    def _channel(self, draft: FactDraft) -> str:
        agent = self.window.agent_id
        return self_channel(agent) if draft.agent_private and agent is not None else self.window.channel

    async def add_doubts(self) -> None:
        """Note of held beliefs that a turn of the user casts doubt on them; where none tells of a change, read none."""
        await self._add_linked_doubts()
        own = [turn for turn in self.turns.values() if turn.role == "user"]
        changing = [
            ChangingTurn(turn.id, said_at, changes)
            for turn in own
            if (said_at := self._stated_at(turn.id)) and (changes := [*list_changes(read_turn(turn.content))])
        ]
        if not changing:
            return
        known = await read_beliefs(self.context, self.window.channel, self._list_pending())
        claims = [(draft, self._stated_at(draft.turn_id)) for draft in self.draft.facts if draft.turn_id in self.turns]
        for fact in mark_doubted(known, changing, date_claims(claims), self.window.slots):
            doubt = {"doubted_at": fact.doubted_at, "doubt_spans": fact.doubt_spans}
            for each in (fact, *await find_global_copies(self.context, [fact])):
                self._upsert(each.model_copy(update=doubt), each.seq)

    async def _add_linked_doubts(self) -> None:
        """Note of beliefs that a claim is said to end that they are in doubt, where its words do not tell so."""
        linking = [draft for draft in self.draft.facts if draft.doubts_fact_ids and draft.turn_id in self.turns]
        targets = await self._read_target_facts(linking)
        for draft in linking:
            for target in filter(None, map(targets.get, draft.doubts_fact_ids)):
                if target.key not in self.upserts and not target.in_doubt_since and draft.span:
                    doubt = {
                        "doubted_at": self._stated_at(draft.turn_id),
                        "doubt_spans": ((draft.turn_id, *draft.span),),
                    }
                    self._upsert(target.model_copy(update=doubt), target.seq)

    # -- relations and glosses

    async def add_relations(self) -> None:
        """State the relations between what was named; one that had ended holds again from the day it was said."""
        stated: dict[str, tuple[Edge, str]] = {}
        for draft in self.draft.relations:
            source, target = self.resolver.resolve(draft.source), self.resolver.resolve(draft.target)
            if draft.turn_id in self.turns and source is not None and target is not None and source != target:
                user_id = self.context.scope.user_id
                self._expect_entities((source, target))
                said = {"source_turn_ids": (draft.turn_id,)}
                edge = build_relation(user_id, self.window.channel, (source, target), draft.kind, **said)
                stated.setdefault(edge.id, (edge, draft.turn_id))
        read = await self.context.engine.log.read_records("Edge", list(stated), self.context.scope) if stated else []
        known = {each.id: each for each in read if isinstance(each, Edge) and not each.superseded_at}
        believed = {find_stated_relation(fact) for fact in self._list_pending()}
        for name, (edge, turn_id) in stated.items():
            if edge.key in self.upserts or edge_triple(edge) in believed:
                continue  # its belief ended in this very window, or states it
            if name not in known:
                self._insert_if_absent(edge)
            elif (again := restate_relation(known[name], turn_id, self._stated_at(turn_id))) != known[name]:
                self._upsert(again, known[name].seq)

    async def add_summaries(self) -> None:
        """Give each turn its gloss, which marks it as extracted.

        It is empty where nothing was said of the turn, or what was said leans on a turn that was forgotten meanwhile.
        """
        said = {draft.turn_id: draft for draft in self.draft.summaries if draft.turn_id in self.turns}
        others = dict.fromkeys(
            name for draft in said.values() for name in draft.context_turn_ids if name not in self.turns
        )
        leaned_on = await self.reconciler.read_current_turns(list(others))
        self._expect_unchanged(leaned_on.values())
        for turn in self.turns.values():
            draft = said.get(turn.id, TurnSummaryDraft(turn_id=turn.id))
            if not {*self.turns, *leaned_on}.issuperset(draft.context_turn_ids):
                draft = TurnSummaryDraft(turn_id=turn.id)
            gloss = build_record(
                Gloss,
                id=turn.id,
                channel=turn.channel,
                conversation_id=turn.conversation_id,
                standalone=draft.standalone,
                keys=draft.keys,
                source_turn_ids=tuple(dict.fromkeys((turn.id, *draft.context_turn_ids))),
                extractor=self.reconciler.extractor,
            )
            text = gloss.search_text()
            bare = strip_names(text, self.window.participants) if text else ""
            bared = gloss.model_copy(update={"bare": bare if bare != text else ""})
            self._upsert(bared, self.reconciler.retired_summary_seqs.get(turn.id))

    # -- the whole

    def build_change(self) -> Change:
        """All of it."""
        if any(fact.subject_entity_id == PROFILE_ID for fact in self._list_pending()):
            self._insert_if_absent(build_profile())
        return self.write.build_change(
            *self.upserts.values(),
            inserts_if_absent=tuple(self.inserts_if_absent.values()),
            expected_versions=self.expected_versions,
        )

    def count_by_kind(self) -> dict[str, int]:
        """How many records of each kind there are."""
        return dict(Counter(record.kind for record in self.upserts.values()))

    def find_confirmed(self) -> list[Key]:
        """The facts known before that hold and gained one of these turns as a source."""
        return [
            record.key
            for record in self.upserts.values()
            if isinstance(record, Fact)
            and record.seq
            and record.superseded_at is None
            and not self.turns.keys().isdisjoint(record.source_turn_ids)
        ]

    def _upsert(self, record: Record, seq: int | None) -> None:
        self.upserts[record.key] = record
        self.expected_versions.setdefault(record.key, seq)

    def _expect_unchanged(self, records: Iterable[Record]) -> None:
        """Let these stand where they were read, or where an earlier reader saw them."""
        for record in records:
            self.expected_versions.setdefault(record.key, record.seq)

    def _insert_if_absent(self, record: Record) -> None:
        """Write a record where there is none of its id."""
        self.inserts_if_absent.setdefault(record.key, record)

    def _stated_at(self, turn_id: str) -> datetime | None:
        turn = self.turns[turn_id]
        return turn.timestamp or turn.recorded_at


def _may_contradict(draft: FactDraft, known: Fact, entity_ids: set[str]) -> bool:
    """Whether two open claims are of one subject and share an entity or a word; what fills a slot the table settles."""
    is_same_subject = not known.subject or known.subject.casefold() == draft.subject.casefold()
    words = set(tokenize(draft.claim)) & set(tokenize(known.claim)) - _OWNER_TERMS
    return not known.slot and is_same_subject and bool(words or entity_ids & set(known.entity_ids))


def _source(turn: Turn) -> str:
    """Whose word a turn is."""
    if turn.role in ("assistant", "agent"):
        return "agent"
    if turn.role == "tool":
        return "tool"
    return "import" if turn.metadata.get(IMPORTED_MARK) else "user"


def _without_entity_ids(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Without the entities, some of which are written with the fact, and without what was not said."""
    return {name: value for name, value in fields.items() if name != "entity_ids" and value is not None}
