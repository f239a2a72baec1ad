"""BatchNorm beside padding: exactly BatchNorm over the real samples."""

from __future__ import annotations

import pytest
import torch
from support import batch_norm_net
from torch import nn

from fedvls.lift.functional import OneByOne, Vectorised
from fedvls.lift.masked import Rows, masked
from fedvls.lift.trial import samples_are_apart
from fedvls.models.network import Network


def values(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize(("layer", "shape"), [(nn.BatchNorm1d, (6, 3)), (nn.BatchNorm2d, (6, 3, 2, 2))])
def test_equals_batch_norm_over_the_real_samples(layer, shape, affine):
    plain = layer(3, affine=affine).double()
    rows = Rows()
    other = masked(plain, rows)
    rows.real = torch.tensor(4)
    x, slope = values(*shape), values(*shape, seed=1)
    first, second = x[:4].clone().requires_grad_(), x.clone().requires_grad_()
    expected, found = plain(first), other(second)
    torch.testing.assert_close(found[:4], expected, rtol=1e-12, atol=1e-12)
    (expected * slope[:4]).sum().backward()
    (found[:4] * slope[:4]).sum().backward()
    torch.testing.assert_close(second.grad[:4], first.grad, rtol=1e-10, atol=1e-12)
    assert not second.grad[4:].any()
    for name in ("running_mean", "running_var"):
        torch.testing.assert_close(getattr(other, name), getattr(plain, name), rtol=1e-12, atol=1e-12)


def test_with_all_samples_real_it_is_batch_norm_to_the_bit():
    plain, rows = nn.BatchNorm2d(3), Rows()
    other, x = masked(plain, rows), values(6, 3, 2, 2).float()
    assert torch.equal(other(x), plain(x))
    assert all(torch.equal(getattr(other, name), getattr(plain, name)) for name in ("running_mean", "running_var"))


def test_batch_norm_with_a_way_of_its_own_stays_as_it_is():
    """Then it is found out that samples are not apart, and no minibatch is padded."""

    class Ghost(nn.BatchNorm2d):
        def forward(self, x):
            return torch.cat([super(Ghost, self).forward(half) for half in x.chunk(2)])

    for norm in (Ghost(1), nn.BatchNorm2d(1, momentum=None), nn.BatchNorm2d(1).eval()):
        module = nn.Sequential(norm, nn.Flatten(), nn.Linear(16, 5))
        assert type(masked(module, Rows())[0]) is type(norm)
        assert samples_are_apart(masked(module, Rows()), values(4, 1, 4, 4).float(), Rows()) is not norm.training


def test_a_module_that_looks_across_the_batch_is_found_out():
    class Centred(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(16, 5)

        def forward(self, x):
            y = self.head(x.flatten(1))
            return y - y.mean(0)

    x = values(3, 1, 4, 4).float()
    assert not samples_are_apart(Centred(), x, Rows())
    network = Network(Centred(), 5)
    assert {lifted(network, x).padding for lifted in (OneByOne, Vectorised)} == {"none"}
    network = Network(batch_norm_net(), 5)
    assert {lifted(network, x).padding for lifted in (OneByOne, Vectorised)} == {"partial"}


def test_the_trial_leaves_the_running_statistics_alone():
    module, rows = batch_norm_net(), Rows()
    other = masked(module, rows)
    before = {name: b.clone() for name, b in other.named_buffers()}
    assert samples_are_apart(other, values(3, 1, 4, 4).float(), rows)
    assert all(torch.equal(b, before[name]) for name, b in other.named_buffers())
