"""The Triton kernel of an objective: value and gradient with respect to the logits, one program per client.

A client's rows pass twice, tile by tile and in a fixed order: once for what is summed over the batch, once for the
gradients. No atomic additions, hence the same bits every time.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ..losses.masking import EXCLUDED
from .launching import kernel

ABSENT = tl.constexpr(EXCLUDED)


@triton.jit
def softmax(values, admitted):
    """Softmax of `[rows, classes]` inside the admitted classes, and its logarithm; 0 in a row that admits none."""
    held = tl.where(admitted, values, ABSENT)
    below = held - tl.max(held, 1)[:, None]
    parts = tl.where(admitted, tl.exp(below), 0.0)
    total = tl.sum(parts, 1)
    total = tl.where(total == 0.0, 1.0, total)
    return parts / total[:, None], below - tl.log(total)[:, None]


@triton.jit
def suppressed(z, log_prior, is_label, real, FORM: tl.constexpr, LOG_UNIFORM: tl.constexpr):
    """u_ic, whose exponentials are summed over the samples, and ABSENT where a sample does not count."""
    if FORM == "released":
        u = tl.where(is_label, 0.0, z - log_prior[None, :] + LOG_UNIFORM)
    else:
        u = tl.where(is_label, ABSENT, z)
    return tl.where(real[:, None], u, ABSENT)


@triton.jit
def log_of_one_plus(x):
    """log(1 + x), to full precision for a small x: rounding 1 + x is undone by the quotient."""
    more = 1.0 + x
    rounded = more - 1.0
    return tl.where(rounded == 0.0, x, tl.log(more) * (x / tl.where(rounded == 0.0, 1.0, rounded)))


POINTERS = (
    "logits", "labels", "mask", "teacher", "shift", "scale", "heard", "spoken", "prior", "log_prior", "loss", "slope",
)  # fmt: skip


@kernel(unaligned=POINTERS, plain=("batch",))
def slopes(
    logits,
    labels,
    mask,
    teacher,
    shift,
    scale,
    heard,
    spoken,
    prior,
    log_prior,
    loss,
    slope,
    batch,
    C: tl.constexpr,
    CROSS_ENTROPY: tl.constexpr,
    SHIFT: tl.constexpr,
    SCALE: tl.constexpr,
    TRUSTED_SHIFT: tl.constexpr,
    DISTILLATION: tl.constexpr,
    TEMPERATURE: tl.constexpr,
    WITHOUT_LABEL: tl.constexpr,
    TRUSTED_TEACHER: tl.constexpr,
    SUPPRESSION: tl.constexpr,
    FORM: tl.constexpr,
    LOG_UNIFORM: tl.constexpr,
    BM: tl.constexpr,
    BC: tl.constexpr,
):
    """logits and teacher `[K, B, C]`, labels and mask `[K, B]`, everything else of the clients `[K, C]`; writes loss
    `[K]` and slope `[K, B, C]`, 0 for padding. CROSS_ENTROPY, DISTILLATION, SUPPRESSION: weights, 0 for no such term;
    compiled in, because a number given at launch would be rounded to float32. The formulas are those of `terms.Known`,
    u that of `suppressed`.
    """
    k = tl.program_id(0).to(tl.int64)
    dtype = logits.dtype.element_ty
    c = tl.arange(0, BC)
    inside = c < C
    logits += k * batch * C
    teacher += k * batch * C
    slope += k * batch * C
    labels += k * batch
    mask += k * batch
    own = k * C + c

    counted_rows = tl.zeros((BM,), tl.int32)
    if SUPPRESSION != 0.0:
        p_c = tl.load(prior + own, mask=inside, other=0.0).to(dtype)
        log_p_c = tl.load(log_prior + own, mask=inside, other=0.0).to(dtype)
        top = tl.full((BC,), ABSENT, dtype)
        total = tl.zeros((BC,), dtype)
    for first in range(0, batch, BM):
        i = first + tl.arange(0, BM)
        real = tl.load(mask + i, mask=i < batch, other=0) != 0
        counted_rows += real.to(tl.int32)
        if SUPPRESSION != 0.0:
            there = real[:, None] & inside[None, :]
            z = tl.load(logits + i[:, None] * C + c[None, :], mask=there, other=0.0)
            is_label = tl.load(labels + i, mask=real, other=0)[:, None] == c[None, :]
            u = suppressed(z, log_p_c, is_label, real, FORM, LOG_UNIFORM)
            higher = tl.maximum(top, tl.max(u, 0))
            parts = tl.where(u < 0.5 * ABSENT, 0.0, tl.exp(u - higher[None, :]))
            total = total * tl.exp(top - higher) + tl.sum(parts, 0)
            top = higher
    n = tl.maximum(tl.sum(counted_rows, 0), 1).to(dtype)

    if SUPPRESSION != 0.0:
        none = total == 0.0
        total = tl.where(none, 1.0, total)
        per_class = top + tl.log(total) - tl.log(n)
        pull = SUPPRESSION * p_c / total
        if FORM == "bounded":
            # As PyTorch's softplus: x itself above 20.
            per_class = tl.where(none, 0.0, per_class)
            low = tl.minimum(per_class, 20.0)
            pull = tl.where(per_class > 20.0, pull, pull / (1.0 + tl.exp(-low)))
            per_class = tl.where(per_class > 20.0, per_class, log_of_one_plus(tl.exp(low)))
        of_classes = SUPPRESSION * tl.sum(tl.where(none, 0.0, p_c * per_class), 0)

    if SHIFT:
        b_c = tl.load(shift + own, mask=inside, other=0.0).to(dtype)[None, :]
    if SCALE:
        s_c = tl.load(scale + own, mask=inside, other=0.0).to(dtype)[None, :]
    if DISTILLATION != 0.0:
        heard_c = tl.load(heard + own, mask=inside, other=0) != 0
        spoken_c = tl.load(spoken + own, mask=inside, other=0) != 0
    losses = tl.zeros((BM,), dtype)
    for first in range(0, batch, BM):
        i = first + tl.arange(0, BM)
        real = tl.load(mask + i, mask=i < batch, other=0) != 0
        there = real[:, None] & inside[None, :]
        at = i[:, None] * C + c[None, :]
        z = tl.load(logits + at, mask=there, other=0.0)
        is_label = tl.load(labels + i, mask=real, other=0)[:, None] == c[None, :]
        if DISTILLATION != 0.0 or TRUSTED_SHIFT:
            t = tl.load(teacher + at, mask=there, other=0.0).to(dtype)
        if TRUSTED_SHIFT or TRUSTED_TEACHER:
            _, log_t = softmax(t, inside[None, :])
            trust = tl.exp(tl.sum(tl.where(is_label, log_t, 0.0), 1))
        gradient = tl.zeros((BM, BC), dtype)
        if CROSS_ENTROPY != 0.0:
            a = z
            if SCALE:
                a = a * s_c
            if TRUSTED_SHIFT:
                a = a + b_c * trust[:, None]
            elif SHIFT:
                a = a + b_c
            likely, log_likely = softmax(a, inside[None, :])
            losses -= tl.where(real, CROSS_ENTROPY * tl.sum(tl.where(is_label, log_likely, 0.0), 1), 0.0)
            of_a = CROSS_ENTROPY * tl.where(is_label, likely - 1.0, likely)
            if SCALE:
                of_a = of_a * s_c
            gradient += of_a
        if DISTILLATION != 0.0:
            admitted = real[:, None] & (~is_label if WITHOUT_LABEL else inside[None, :])
            q, log_q = softmax(t / TEMPERATURE, admitted & heard_c[None, :])
            p, log_p = softmax(z / TEMPERATURE, admitted & spoken_c[None, :])
            apart = tl.sum(tl.where(admitted & heard_c[None, :], q * (log_q - log_p), 0.0), 1)
            of_z = p * tl.sum(q, 1)[:, None] - q
            if TRUSTED_TEACHER:
                apart = apart * trust
                of_z = of_z * trust[:, None]
            losses += DISTILLATION * TEMPERATURE * TEMPERATURE * apart
            gradient += DISTILLATION * TEMPERATURE * of_z
        gradient = tl.where(there, gradient / n, 0.0)
        if SUPPRESSION != 0.0:
            u = suppressed(z, log_p_c, is_label, real, FORM, LOG_UNIFORM)
            share = pull[None, :] * tl.exp(u - top[None, :])
            gradient += tl.where(there & ~is_label, share, 0.0)
        tl.store(slope + at, gradient, mask=(i < batch)[:, None] & inside[None, :])
    value = tl.sum(losses, 0) / n
    if SUPPRESSION != 0.0:
        value += of_classes
    tl.store(loss + k, value)
