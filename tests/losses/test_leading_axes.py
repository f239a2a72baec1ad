"""One loss per client: stacked and padded clients lose nothing of what each would compute alone."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st


@st.composite
def cohorts(draw):
    """(class counts, batch size) of each client, and a seed. All clients share the number of classes."""
    classes = draw(st.integers(2, 6))
    counts = st.lists(st.integers(0, 9), min_size=classes, max_size=classes).filter(any)
    members = draw(st.lists(st.tuples(counts, st.integers(1, 5)), min_size=1, max_size=4))
    return members, draw(st.integers(0, 10_000))


GARBAGE = {"logits": 1e4, "teacher_logits": -1e4, "labels": 1}
GARBAGE |= {"features": 1e4, "teacher_features": -1e4, "previous_features": 1e4}
"""What padding holds: large numbers, and a label that exists."""
LEARNED = ("logits", "features")


def pad(name, rows, size):
    """Rows of one client's batch, followed by garbage up to the common size."""
    filler = torch.full((size - len(rows), *rows.shape[1:]), GARBAGE[name], dtype=rows.dtype)
    return torch.cat([rows.detach(), filler])


def stack(batches):
    """The clients' batches along a leading axis, padded to one more row than the longest."""
    size = max(len(b["labels"]) for b in batches) + 1
    stacked = {name: torch.stack([pad(name, b[name], size) for b in batches]) for name in GARBAGE}
    stacked["counts"] = torch.stack([b["counts"] for b in batches])
    stacked["sample_mask"] = torch.stack([torch.arange(size) < len(b["labels"]) for b in batches])
    for kind in ("params", "teacher_params"):
        stacked[kind] = {k: torch.stack([b[kind][k].detach() for b in batches]) for k in batches[0][kind]}
    return learning({**stacked, "received": batches[0]["received"]})


def folded(batch, *leading):
    """The same batch with its client axis reshaped to `leading`."""

    def fold(tensor):
        return tensor.detach().reshape(*leading, *tensor.shape[1:])

    result = {k: fold(v) for k, v in batch.items() if isinstance(v, torch.Tensor)}
    for kind in ("params", "teacher_params"):
        result[kind] = {k: fold(v) for k, v in batch[kind].items()}
    return learning({**result, "received": batch["received"]})


def learning(batch):
    for tensor in (*(batch[name] for name in LEARNED), *batch["params"].values()):
        tensor.requires_grad_()
    return batch


@given(cohort=cohorts())
@settings(max_examples=15, deadline=None)
def test_a_padded_stack_gives_each_client_its_own_loss_and_gradient(every_method, draw_batch, gradients, cohort):
    members, seed = cohort
    batches = [draw_batch(counts, size, seed + i) for i, (counts, size) in enumerate(members)]
    alone = [every_method.loss(**batch) for batch in batches]
    stacked = stack(batches)
    together = every_method.loss(**stacked)
    torch.testing.assert_close(together, torch.stack(alone), rtol=1e-10, atol=1e-10)
    found = gradients(together, stacked)
    for i, batch in enumerate(batches):
        size = len(batch["labels"])
        for name, expected in gradients(alone[i], batch).items():
            actual = found[name][i]
            if name in LEARNED:
                assert (actual[size:] == 0).all()
                actual = actual[:size]
            torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("leading", [(2, 3), (3, 2, 1)])
def test_more_leading_axes_change_nothing(every_method, draw_batch, gradients, leading):
    clients = [([6, 0, 3, 0, 1], 3), ([0, 0, 0, 5, 0], 1), ([1, 2, 3, 4, 5], 4), ([9, 9, 0, 0, 0], 2)] * 2
    stacked = stack([draw_batch(counts, size, i) for i, (counts, size) in enumerate(clients[:6])])
    deep = folded(stacked, *leading)
    flat_loss, deep_loss = every_method.loss(**stacked), every_method.loss(**deep)
    assert deep_loss.shape == leading
    torch.testing.assert_close(deep_loss.flatten(), flat_loss, rtol=1e-12, atol=1e-12)
    flat, other = gradients(flat_loss, stacked), gradients(deep_loss, deep)
    for name in flat:
        torch.testing.assert_close(other[name].reshape(flat[name].shape), flat[name], rtol=1e-12, atol=1e-12)


def test_one_row_of_counts_serves_all_clients(every_method, draw_batch):
    stacked = stack([draw_batch([6, 0, 3, 0, 1], size, size) for size in (3, 4)])
    shared = {**stacked, "counts": stacked["counts"][0]}
    torch.testing.assert_close(every_method.loss(**shared), every_method.loss(**stacked))


def test_a_batch_of_padding_alone_is_worth_nothing(method_of, draw_batch, gradients):
    # A client that has finished while others of its stack still train.
    batch = draw_batch([6, 0, 3, 0, 1], 4)
    mask = torch.zeros(4, dtype=torch.bool)
    loss = method_of("fedvls").loss(**batch, sample_mask=mask)
    assert loss == 0
    assert all((g == 0).all() for g in gradients(loss, batch).values())
