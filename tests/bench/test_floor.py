"""The floor counts the products of training a chain of Linear layers, and nothing else."""

from __future__ import annotations

import pytest

from fedvls.bench.floor import Floor, FloorMeter, gemm_step, rate

WIDTHS = (784, 200, 200, 10)


def test_operations_of_the_papers_mlp_are_those_worked_out_by_hand():
    """Forward 2 * (784*200 + 200*200 + 200*10) = 397,600; weight gradients as many; input gradients of all but the
    first layer 2 * (200*200 + 200*10) = 84,000; a teacher's forward 397,600 more."""
    assert Floor(WIDTHS, 64, teacher=False).flops_per_sample == 2 * 397_600 + 84_000 == 879_200
    assert Floor(WIDTHS, 64, teacher=True).flops_per_sample == 879_200 + 397_600 == 1_276_800


def test_operations_per_sample_do_not_depend_on_the_batch_size():
    assert Floor(WIDTHS, 1, False).flops_per_sample == Floor(WIDTHS, 640, False).flops_per_sample


def test_products_have_the_shapes_of_forward_and_backward():
    assert Floor((5, 3, 2), 4, teacher=True).products == [
        *((4, 5, 3), (4, 3, 2)),  # forward
        *((3, 4, 5), (2, 4, 3)),  # weight gradients
        (4, 2, 3),  # input gradient of the second layer
        *((4, 5, 3), (4, 3, 2)),  # teacher
    ]


def test_the_rate_is_samples_over_time():
    steps = []
    value, share = rate(lambda: steps.append(1), samples=64, seconds=0.05)
    assert len(steps) % 10 == 1  # one that does not count, then tens
    assert 0 < value <= 64 * (len(steps) - 1) / 0.05
    assert 0 < share < 1.5  # process_time's clock is coarser


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_a_step_multiplies_every_product(dtype):
    gemm_step(Floor((5, 3, 2), 4, teacher=True).products, dtype)()


def test_processes_measure_together_and_end_with_the_meter():
    with FloorMeter(Floor((5, 3, 2), 4, teacher=False), processes=2) as meter:
        workers = [worker for worker, _ in meter._workers]
        assert meter.measure(0.01).rate > 0
        assert meter.measure(0.01).rate > 0
    assert len(workers) == 2
    assert not any(worker.is_alive() for worker in workers)
    with pytest.raises((OSError, BrokenPipeError)):
        meter.measure(0.01)
