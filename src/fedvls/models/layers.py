"""What the networks share: the samples they accept, and the small parts they are built of."""

from __future__ import annotations

from torch import Tensor, nn

from ..errors import UsageError


def image_shape(model: str, sample_shape: tuple[int, ...], least: int = 1) -> tuple[int, int, int]:
    """Channels, height and width of the samples; (height, width) alone means one channel.

    least: the smallest height and width the model can work on.
    """
    if len(sample_shape) not in (2, 3):
        raise UsageError(
            f"model {model!r} needs images of shape (channels, height, width); "
            f"the data has samples of shape {sample_shape}"
        )
    channels, height, width = (1, *sample_shape) if len(sample_shape) == 2 else sample_shape
    if min(height, width) < least:
        raise UsageError(
            f"model {model!r} needs images of at least {least}x{least}; the data has samples of shape {sample_shape}"
        )
    return channels, height, width


def sequence_length(model: str, sample_shape: tuple[int, ...], least: int = 1) -> int:
    """Number of tokens of a sample."""
    if len(sample_shape) != 1:
        raise UsageError(
            f"model {model!r} needs token sequences of shape (length,); the data has samples of shape {sample_shape}"
        )
    if sample_shape[0] < least:
        raise UsageError(
            f"model {model!r} needs sequences of at least {least} tokens; the data has samples of shape {sample_shape}"
        )
    return sample_shape[0]


def check_at_least(model: str, least: int, **values: int) -> None:
    """Refuse a size below `least`."""
    for name, value in values.items():
        if value < least:
            raise UsageError(f"model {model!r}: {name} = {value} must be >= {least}")


def as_tokens(model: str, x: Tensor) -> Tensor:
    """Token numbers in the type that embeddings take."""
    if x.is_floating_point():
        kind = str(x.dtype).removeprefix("torch.")
        raise UsageError(f"model {model!r} needs whole token numbers; the data has samples of type {kind}")
    return x.long()


class Images(nn.Module):
    """Gives images that come without a channel axis one."""

    def forward(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-3) if x.dim() == 3 else x


class GlobalAverage(nn.Module):
    """Mean over height and width."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((-2, -1))


def normalised(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """A convolution and its BatchNorm, which makes a bias needless; padded so that only the stride changes the size."""
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(outputs)]
