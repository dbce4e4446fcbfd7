"""Word-piece vectors in 64 bytes: a fixed matrix per model takes them to 64 dimensions, int8 keeps them.

The matrix spans the first principal components of the model's own word-piece vectors, over everyday sentences with
words of its vocabulary, so that every model gets one without a data set. An eigensolver leaves the signs of components
free and, where two are nearly equal, their rotation; so the basis kept is the one in their span nearest to a fixed
random one. Two machines that fit it separately get the same matrix up to rounding.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agentmem.errors import ConfigError
from agentmem.models.onnx import SentenceModel, build_once, fingerprint
from agentmem.models.protocols import Vectors

TOKEN_DIMENSIONS = 64
INT8_SCALE = 256
"""Parts of a unit vector in 64 dimensions are mostly below .35; times 256, cut at 127, keeps seven bits for them."""

PROJECTION_VERSION = 2
"""Goes up when the matrix changes; part of the name under which it is kept."""
PROJECTION_FILE = f"tokens{TOKEN_DIMENSIONS}-{PROJECTION_VERSION}.npy"

_FIT_SENTENCES = 800

# Word pieces take their vectors from whole sentences, so words strung together would measure another model than the one
# in use: a projection fitted on such kept .36 of the energy of real dialogue, on these sentences .46.
# Stored vectors depend on every word here: another spelling makes another int8 model.
_TEMPLATES = """\
I went to the _ with my _ last weekend, and we had a great time.
Have you ever tried _ with _? It sounds strange, but it works.
Thanks for asking! The _ is much better now, and I hope to be back soon.
Could you explain how the _ works when there is more than one _?
My _ told me about a _ near the river; they open at nine on Mondays.
We moved here two years ago because of the _, and the kids love the _.
I need a list of everything we still have to do before the _.
That is wonderful news, congratulations on your new _!
The second _ fails with an error as soon as I add a _ to the file.
What do you think about the _? I am not sure whether it is worth the money.
She has been learning _ since March and wants to play in a _ next summer.
Please write a short plan for the _, with a budget of 500 for _ and travel.
I'm allergic to _, so the _ we ordered yesterday was a bad idea.
Did your brother finish the _ he started, or is he still waiting for _?
It was raining all day, so we stayed at home, read about _ and cooked _.
How many people came to the _? I counted at least twenty.
In the morning I usually run to the _, then I answer emails about _.
The doctor said that _ helps, but only if I sleep more and worry less.
I used to work as a _, but now I teach _ at a small school.
Let me know if the _ doesn't fit; we can send it back until Friday.
He gave me an old _ for my birthday, and it reminds me of our _.
First install the _, then set the _ to 10 and run the test again.
I can't believe it's been five years since the _!
Our team decided to postpone the _ because the _ was not ready.
Where did you buy that _? The colours are amazing.
The book is about a _ who travels to a _ and never comes home.
You should talk to someone about the _; keeping it inside won't help.
On Tuesday I have a meeting about _, so let's have lunch on Thursday instead.
My grandmother's _ recipe needs butter, sugar and a little _.
I prefer the _ over the _, mostly because it is faster and costs less.
Sorry, I forgot to mention that the _ has changed since we last spoke.
We saw a _ on the beach, and my daughter took a picture of it.
The first version of my _ got 40 users; the second one should handle more.
Is there a way to combine _ and _ without losing the older results?
They adopted a dog from the shelter and named it after a _.
I feel proud of the _, even though it took months and I almost gave up.
"""
_MAX_WORDS = 8000
_MIN_WORD_CHARS = 4


def load_projection(model: SentenceModel, models_dir: Path) -> Vectors:
    """The model's matrix, shape (hidden, 64), float32, orthonormal columns: that beside its graph, or fitted once.

    Fitting takes some 4 s; what was fitted is kept in `models_dir`.

    Raises ConfigError when the model gives no word-piece vectors, has fewer than 64 dimensions or the folder cannot be
    written.
    """
    if not model.has_token_outputs:
        raise ConfigError("the local model gives no vector per word piece, so there is nothing to rerank by")
    beside = model.graph_path.with_name(PROJECTION_FILE)
    if beside.is_file():
        return np.asarray(np.load(beside), dtype=np.float32)
    target = models_dir / "built" / f"{Path(PROJECTION_FILE).stem}-{fingerprint(model.graph_path)}.npy"
    build_once(target, lambda part: np.save(part, fit_projection(model)))
    return np.asarray(np.load(target), dtype=np.float32)


def fit_projection(model: SentenceModel) -> Vectors:
    """Fit the matrix of `load_projection`."""
    try:
        texts = generate_sentences(model.vocabulary, _FIT_SENTENCES)
    except ValueError as error:
        raise ConfigError(f"the word-piece matrix of the local model cannot be fitted: {error}") from error
    states = [model.encode(text, with_tokens=True).states for text in texts]
    units = normalize_rows(np.concatenate(states)).astype(np.float64)
    if units.shape[1] < TOKEN_DIMENSIONS:
        raise ConfigError(
            f"the local model has {units.shape[1]} dimensions per word piece; {TOKEN_DIMENSIONS} are needed"
        )
    _, axes = np.linalg.eigh(units.T @ units)
    return _align_basis(axes[:, -TOKEN_DIMENSIONS:])


def generate_sentences(vocabulary: dict[str, int], count: int) -> list[str]:
    """Return `count` sentences, the same for the same vocabulary (word piece to id).

    Gaps are filled with whole lower-case words; vocabularies are sorted by frequency, so early words come more often.
    Raises ValueError when there are no such words.
    """
    by_id = sorted((number, piece.lstrip("▁Ġ")) for piece, number in vocabulary.items())
    words = [word for _, word in by_id if word.isascii() and word.isalpha() and word.islower()]
    words = [word for word in words if len(word) >= _MIN_WORD_CHARS][:_MAX_WORDS]
    if not words:
        raise ValueError("the vocabulary holds no words of the letters a-z")
    chance = random.Random(0)  # noqa: S311  reproducible, no secret
    frames = _TEMPLATES.splitlines()
    made = []
    for number in range(count):
        first, *others = frames[number % len(frames)].split("_")
        filled = [words[int(len(words) * chance.random() ** 2)] + part for part in others]
        made.append("".join([first, *filled]))
    return made


def quantize_tokens(states: Vectors, matrix: Vectors) -> NDArray[np.int8]:
    """Project, bring to unit length and scale to int8, shape (pieces, 64)."""
    units = normalize_rows(states @ matrix)
    return np.clip(np.rint(units * INT8_SCALE), -127, 127).astype(np.int8)


def normalize_rows(rows: Vectors) -> Vectors:
    """Rows at unit length; one of zeros stays."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(lengths, 1e-12), dtype=np.float32)


def _align_basis(axes: NDArray[np.float64]) -> Vectors:
    """The orthonormal basis of the span of `axes` that is nearest to a fixed random one (orthogonal Procrustes)."""
    chance = random.Random(1)  # noqa: S311  reproducible, no secret
    fixed = np.array([[chance.gauss(0, 1) for _ in range(axes.shape[1])] for _ in range(axes.shape[0])])
    left, _, right = np.linalg.svd(axes @ (axes.T @ fixed), full_matrices=False)
    return np.asarray(left @ right, dtype=np.float32)
