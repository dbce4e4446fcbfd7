"""Index terms: English as stems, identifiers whole and in parts, CJK as bigrams, and no text that breaks it."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import Stemmer
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem.text import tokenizer
from agentmem.text.tokenizer import MAX_TERM_CHARS, extract_features_and_terms, stop_words, tokenize

ANY_TEXT = st.text(st.characters(), max_size=300)  # with NUL, surrogates, marks, right-to-left letters, emoji
CODE_LIKE = st.text(st.sampled_from("aBc_-.@/\\:+#,'09 \u00e9\u6771"), max_size=60)

CASES = [
    ("I went to the LGBTQ support group yesterday", ["went", "lgbtq", "support", "group", "yesterday"]),
    ("Ann's dog; ANN\u2019S dogs", ["ann", "dog", "ann", "dog"]),
    ("don't well-known and/or he/she", ["well", "known"]),
    ("R, Go and AI", ["r", "go", "ai"]),
    ("C++ C# .NET", ["c++", "c", "c#", "c", ".net", "net"]),
    ("foo_bar.baz", ["foo_bar.baz", "foo", "bar", "baz"]),
    ("getUserName", ["getusernam", "get", "user", "name"]),
    ("HTTPServer", ["httpserver", "http", "server"]),
    ("10.0.0.1 v2.3.1", ["10.0.0.1", "10", "0", "0", "1", "v2.3.1", "v2", "3", "1"]),
    ("mail user@example.com", ["mail", "user@example.com", "user", "exampl", "com"]),
    ("ABC-123", ["abc-123", "abc", "123"]),
    ("/usr/local/bin", ["usr/local/bin", "usr", "local", "bin"]),
    ("see C:\\Users\\me", ["see", "c:\\users\\me", "c", "user"]),
    ("$1,000", ["1000", "1", "000"]),
    ("the U.S. army", ["us", "u", "armi"]),
    ("It was late.Then it rained", ["late", "rain"]),
    ("cafe\u0301 CAF\u00c9", ["caf\u00e9", "caf\u00e9"]),
    ("Stra\u00dfe", ["strass"]),
    ("\u6771\u4eac\u3078", ["\u6771\u4eac", "\u4eac\u3078"]),
    ("\u72ac", ["\u72ac"]),
    ("\ud55c\uad6d\uc5b4", ["\ud55c\uad6d", "\uad6d\uc5b4"]),
    ("Python\u8a00\u8a9e", ["python", "\u8a00\u8a9e"]),
    ("\uff76\uff9e\uff72\uff84\uff9e", ["\u30ac\u30a4", "\u30a4\u30c9"]),
    (
        "\u0939\u093f\u0928\u094d\u0926\u0940 \u092e\u0947\u0902",
        ["\u0939\u093f\u0928\u094d\u0926\u0940", "\u092e\u0947\u0902"],
    ),
    ("Foo\u2122 co\u00adoperate", ["foo", "cooper"]),
    ("job in the IT department, who said it?", ["job", "it", "depart", "said"]),
    ("I LOVE IT SO MUCH", ["love", "much"]),
    ("the of and", []),
    ("\x00\ud800 \U0001f389", ["\U0001f389"]),
    ("", []),
]


@pytest.mark.parametrize("text,expected", CASES)
def test_terms(text: str, expected: list[str]) -> None:
    assert tokenize(text) == expected


def test_a_query_finds_the_parts_of_an_identifier() -> None:
    assert set(tokenize("user name")) <= set(tokenize("call getUserName() now"))
    assert set(tokenize("getUserName")) <= set(tokenize("obj.getUserName()"))


def test_counts_are_the_terms_counted() -> None:
    assert extract_features_and_terms("Dogs, a dog and two cats")[1] == {"dog": 2, "two": 1, "cat": 1}
    assert extract_features_and_terms("and the")[1] == {}


@given(st.lists(st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=12) | st.sampled_from(sorted(stop_words()))))
def test_plain_english_is_its_stemmed_words_without_stop_words(words: list[str]) -> None:
    stemmer = Stemmer.Stemmer("english")
    expected = [stemmer.stemWord(word) for word in words if word not in stop_words()]
    assert tokenize(" ".join(words)) == expected
    assert tokenize("; ".join(words).capitalize() + ".") == expected


@given(ANY_TEXT | CODE_LIKE)
@settings(deadline=None)
def test_any_text_gives_short_storable_terms(text: str) -> None:
    found = tokenize(text)
    assert found == tokenize(text)
    assert sum(extract_features_and_terms(text)[1].values()) == len(found)
    for term in found:
        assert 0 < len(term) <= MAX_TERM_CHARS
        assert term.encode("utf-8")
        assert not re.search(r"\s|\x00", term)


@given(CODE_LIKE)
@settings(deadline=None)
def test_every_word_of_a_compound_is_found_alone(text: str) -> None:
    found = set(tokenize(text))
    for word in re.findall("[a-z0-9]+", text.replace("\u00e9", " ").replace("\u6771", " ").lower()):
        standing_alone = re.search(rf"(?<![^\W_]){word}(?![^\W_])", text.lower())
        assert not standing_alone or set(tokenize(word)) <= found


@pytest.mark.parametrize(
    "piece", ["a.", "aA", "_", "1,", "[", "?! ", "\u6771", "a-", "://", "A", "e\u0301", "\ud800", "C++", "x@", "\u0e01"]
)
def test_ten_thousand_characters_of_one_kind(piece: str) -> None:
    found = tokenize(piece * (10_000 // len(piece)))
    assert all(len(term) <= MAX_TERM_CHARS for term in found)


def test_threads_share_the_stemmer_safely() -> None:
    texts = [" ".join(f"running{a}ing nationally{b}s" for a in "abcdefgh") for b in "ijklmnop"] * 20
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(tokenize, texts)) == [tokenize(text) for text in texts]


def test_the_stop_word_file_holds_plain_words() -> None:
    assert {"the", "don", "t", "how"} <= stop_words()
    assert not {"us", "r", "go", "ai"} & stop_words()
    assert all(re.fullmatch("[a-z]+", word) for word in stop_words())


@pytest.mark.parametrize(
    "text, terms",
    [
        ("I play 🎸 and 🎹!", ["play", "🎸", "🎹"]),
        ("🎸🎸", ["🎸", "🎸"]),
        ("👩‍💻 codes", ["👩", "💻", "code"]),
        ("🇳🇴🇸🇪", ["🇳🇴", "🇸🇪"]),
        ("👍🏽 Tom❤️Ann", ["👍", "tom", "❤", "ann"]),
    ],
)
def test_an_emoji_is_a_word(text: str, terms: list[str]) -> None:
    assert tokenize(text) == terms


@pytest.mark.parametrize("change", ["_stem", "_bigrams", "_identifier_term", "_normalize"])
def test_the_fingerprint_changes_with_the_tokenizer(monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    before = tokenizer.tokenizer_fingerprint()
    assert re.fullmatch("[0-9a-f]{12}", before)
    others: dict[str, Any] = {
        "_stem": str,
        "_bigrams": list,
        "_identifier_term": lambda text, preceding: "",
        "_normalize": str,
    }
    monkeypatch.setattr(tokenizer, change, others[change])
    tokenizer._to_term.cache_clear()
    tokenizer.tokenizer_fingerprint.cache_clear()
    assert tokenizer.tokenizer_fingerprint() != before
    monkeypatch.undo()
    tokenizer._to_term.cache_clear()
    tokenizer.tokenizer_fingerprint.cache_clear()
    assert tokenizer.tokenizer_fingerprint() == before
