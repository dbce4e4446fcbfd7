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
from agentmem.models.onnx_export import generate_sentences
from agentmem.models.protocols import Vectors

TOKEN_DIMENSIONS = 64
INT8_SCALE = 256
"""Parts of a unit vector in 64 dimensions are mostly below .35; times 256, cut at 127, keeps seven bits for them."""

PROJECTION_VERSION = 2
"""Goes up when the matrix changes; part of the name under which it is kept."""

_FIT_SENTENCES = 800


def load_projection(model: SentenceModel, models_dir: Path) -> Vectors:
    """The model's matrix, shape (hidden, 64), float32, orthonormal columns; fitted once (some 4 s) and kept.

    Raises ConfigError when the model gives no word-piece vectors, has fewer than 64 dimensions or the folder cannot be
    written.
    """
    if not model.has_token_outputs:
        raise ConfigError("the local model gives no vector per word piece, so there is nothing to rerank by")
    target = models_dir / "built" / f"tokens{TOKEN_DIMENSIONS}-{PROJECTION_VERSION}-{fingerprint(model.graph_path)}.npy"
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
