"""Networks for texts, given as sequences of token numbers of one length; number 0 is padding."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..errors import UsageError
from .layers import as_tokens, check_at_least, sequence_length
from .registry import MODELS

PADDING = 0
VOCABULARY = 98_635
KERNELS = (3, 4, 5)


class FastText(nn.Module):
    """Mean of the tokens' vectors, Linear, Linear classifier; nothing in between.

    The mean is over all positions, padding too, whose vector is 0 and stays so: short texts have short means.
    """

    def __init__(self, vocabulary: int, dimension: int, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, dimension, padding_idx=PADDING)
        self.hidden = nn.Linear(dimension, dimension)
        self.classifier = nn.Linear(dimension, classes)

    def forward(self, x: Tensor) -> Tensor:
        vectors: Tensor = self.embedding(as_tokens("fasttext", x))
        logits: Tensor = self.classifier(self.hidden(vectors.mean(-2)))
        return logits


class TextCnn(nn.Module):
    """Convolutions over 3, 4 and 5 neighbouring tokens, ReLU, maximum over positions, Linear classifier."""

    def __init__(self, vocabulary: int, dimension: int, channels: int, dropout: float, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, dimension, padding_idx=PADDING)
        self.convolutions = nn.ModuleList(nn.Conv1d(dimension, channels, kernel) for kernel in KERNELS)
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()
        self.classifier = nn.Linear(len(KERNELS) * channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        vectors = self.embedding(as_tokens("textcnn", x)).transpose(-1, -2)
        strongest = [torch.relu(convolution(vectors)).amax(-1) for convolution in self.convolutions]
        logits: Tensor = self.classifier(self.dropout(torch.cat(strongest, -1)))
        return logits


TEXT_MODELS = (FastText, TextCnn)


def check_vectors(embedding: nn.Embedding, vocabulary: int) -> None:
    """Tokens without a vector would be found out in the middle of a round, if at all."""
    last = embedding.num_embeddings - 1
    if last < vocabulary - 1:
        raise UsageError(
            f"the data have tokens 0..{vocabulary - 1}, but the model has vectors for 0..{last} only; make it with "
            f"vocabulary={vocabulary}"
        )


@MODELS.register("fasttext")
def fasttext(
    sample_shape: tuple[int, ...], classes: int, dimension: int = 32, vocabulary: int = VOCABULARY
) -> nn.Module:
    """Mean of token vectors and two Linear layers (3,157,508 parameters for AG_news: 98,635 tokens, 4 classes)."""
    sequence_length("fasttext", sample_shape)
    check_at_least("fasttext", 1, dimension=dimension, vocabulary=vocabulary)
    return FastText(vocabulary, dimension, classes)


@MODELS.register("textcnn")
def textcnn(
    sample_shape: tuple[int, ...],
    classes: int,
    dimension: int = 32,
    channels: int = 100,
    dropout: float = 0.0,
    vocabulary: int = VOCABULARY,
) -> nn.Module:
    """Convolutions over 3, 4 and 5 tokens, 100 channels each (3,196,224 parameters for AG_news)."""
    sequence_length("textcnn", sample_shape, least=max(KERNELS))
    check_at_least("textcnn", 1, dimension=dimension, channels=channels, vocabulary=vocabulary)
    if not 0 <= dropout < 1:
        raise UsageError(f"model 'textcnn': dropout = {dropout} must be at least 0 and below 1")
    return TextCnn(vocabulary, dimension, channels, dropout, classes)
