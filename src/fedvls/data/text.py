"""Text as rows of tokens: how it is cut into words, and how words are numbered."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError

PAD, UNKNOWN, CLS = 0, 1, 2
SPECIALS = 3
LENGTH = 200

# News feeds write a character as #39; (the ampersand got lost) or as &#39; or &quot;, and lines end in <br>.
_CHARACTER = re.compile(r"&?#(\d{2,5});")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_TOKEN = re.compile(r"[^\W_]+|[.,!?()']")


def tokenize(text: str) -> list[str]:
    """Words and marks of a text, in lower case.

    1. Characters written as numbers or names (`#39;`, `&quot;`) are put back; HTML tags become spaces.
    2. Letters become lower case.
    3. A run of letters and digits of any script is a token. Each of `. , ! ? ( ) '` is a token of its own, so "don't"
       gives `don`, `'` and `t`. Everything else (spaces, quotation marks, hyphens, other signs) separates tokens and is
       dropped.

    This is in the spirit of torchtext's `basic_english`, which differs in details: it keeps hyphens and other signs
    inside words. Vocabularies are therefore not the same.
    """
    if "#" in text or "&" in text:
        text = html.unescape(_CHARACTER.sub(r"&#\1;", text))
    if "<" in text:
        text = _TAG.sub(" ", text)
    return _TOKEN.findall(text.lower())


def encode(
    train: Sequence[str], test: Sequence[str], length: int, max_vocabulary: int | None
) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
    """Both sets as rows of `length` tokens, and the size of the vocabulary, which comes from the training text alone.

    Numbers: 0 fills a row up, 1 is a word the vocabulary lacks, 2 begins every row, and from 3 on come the words of the
    training text, the most frequent first and equally frequent ones in alphabetical order.
    max_vocabulary: keep only so many numbers, the three special ones included.
    """
    if length < 2:
        raise UsageError(f"length = {length} must be at least 2: every row begins with a special token")
    if max_vocabulary is not None and max_vocabulary <= SPECIALS:
        raise UsageError(f"max_vocabulary = {max_vocabulary} must be above {SPECIALS}, the number of special tokens")
    met: dict[str, int] = {}  # words in the order in which they are met
    rows = [[met.setdefault(token, len(met)) for token in tokenize(text)] for text in train]
    counts = np.bincount(np.fromiter(chain.from_iterable(rows), np.int64), minlength=len(met))
    words = sorted(met, key=lambda word: (-counts[met[word]], word))
    if max_vocabulary is not None:
        words = words[: max_vocabulary - SPECIALS]
    numbers = {word: SPECIALS + rank for rank, word in enumerate(words)}
    renumbered = np.array([numbers.get(word, UNKNOWN) for word in met], np.int32)
    x_train = _rows([renumbered[row[: length - 1]] for row in rows], length)
    x_test = _rows([[numbers.get(t, UNKNOWN) for t in tokenize(text)[: length - 1]] for text in test], length)
    return x_train, x_test, SPECIALS + len(words)


def _rows(texts: Sequence[Sequence[int] | NDArray[np.int32]], length: int) -> NDArray[np.int32]:
    rows = np.full((len(texts), length), PAD, np.int32)
    rows[:, 0] = CLS
    for row, tokens in zip(rows, texts, strict=True):
        row[1 : 1 + len(tokens)] = tokens
    return rows
