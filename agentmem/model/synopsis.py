"""The synopsis of a user: who it is, and what goes on lately, each sentence with the records that it rests on."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from agentmem.model.record import Key, Record, UtcDatetime

IDENTITY_HEADING, CONTEXT_HEADING = "# About the user", "# What the user is up to"


class SynopsisSentence(BaseModel):
    """One sentence, and the (kind, id) of the records that it rests on."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    text: str = Field(min_length=1, max_length=500)
    grounds: tuple[Key, ...] = ()


class SynopsisSection(BaseModel):
    """One of the two parts, its sentences the most telling first.

    `shown` are all records that it was made from, `basis` a digest of those that were current then, `turns` the journal
    position of the latest turn. `made_by` is the identity of the model that wrote it, or `facts`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    sentences: tuple[SynopsisSentence, ...] = ()
    shown: tuple[Key, ...] = ()
    basis: str = ""
    turns: int = 0
    made_by: str = ""
    made_at: UtcDatetime | None = None

    @property
    def text(self) -> str:
        """Its sentences, a line each; empty for none."""
        return "\n".join(f"- {sentence.text}" for sentence in self.sentences)


class Synopsis(Record):
    """What is to be known of a user before anything is asked, of one channel as it is stored, of a scope as it is read.

    `identity` says who the user is, `context` what goes on lately. It rests on other records and goes with them.
    """

    identity: SynopsisSection = SynopsisSection()
    context: SynopsisSection = SynopsisSection()

    @property
    def text(self) -> str:
        """Both parts under their headings, ready for a prompt; empty when nothing is known."""
        parts = ((IDENTITY_HEADING, self.identity), (CONTEXT_HEADING, self.context))
        return "\n".join(f"{heading}\n{tier.text}" for heading, tier in parts if tier.sentences)

    def __str__(self) -> str:
        """The text."""
        return self.text

    def source_keys(self) -> frozenset[Key]:
        """Every record that it was made from."""
        return frozenset((*self.identity.shown, *self.context.shown))
