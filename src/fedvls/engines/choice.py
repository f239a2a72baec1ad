"""Which engine trains: the one asked for, or the fastest that supports model, method and device."""

from __future__ import annotations

from collections.abc import Callable

from ..augment import Augmentation
from ..data.resident import ResidentData
from ..errors import UsageError, unknown
from ..lift import SAMPLES, lifted_by_hand
from ..models.network import Network
from .base import ClientTask, Engine, RoundJob
from .graphed import GraphedEngine
from .parallel import ParallelEngine, cores, is_supported
from .rehearsal import why_one_by_one
from .samples import Samples
from .sequential import SequentialEngine
from .stacked import StackedEngine
from .support import obstacle, why_not_captured


def stacked(network: Network, data: ResidentData, augmentation: Augmentation) -> Engine:
    """One stack on a GPU; on a CPU one in each worker process."""
    engine = StackedEngine(network, data, augmentation)
    return ParallelEngine(network, data, augmentation, whole=engine) if is_supported(data) else engine


# Up to this many samples in a minibatch, a cohort in one kernel beat kernels side by side on an H200.
SMALL = 16

ENGINES: dict[str, Callable[[Network, ResidentData, Augmentation], Engine]] = {
    "sequential": SequentialEngine,
    "parallel": ParallelEngine,
    "stacked": stacked,
    "graphed": GraphedEngine,
}


def check_engine(name: str, data: ResidentData) -> None:
    """An engine that does not exist, or not on this device, is one line."""
    if name not in ("auto", *ENGINES):
        raise unknown("engine", name, ["auto", *ENGINES])
    if name == "parallel" and not is_supported(data):
        raise UsageError("engine 'parallel' needs a CPU, fork() and a PyTorch without a GPU; use --engine sequential")
    if name == "graphed" and data.device.type != "cuda":
        raise UsageError("engine 'graphed' needs a CUDA device; on a CPU use --engine parallel")


def choose(
    name: str, network: Network, data: ResidentData, augmentation: Augmentation, job: RoundJob, trial: ClientTask
) -> tuple[Engine, str]:
    """The named engine, or for "auto" the fastest that supports this model, method and device, with the reason.

    job and trial: a round and a client to try capturing on; nothing of it is kept.
    """
    check_engine(name, data)
    if name == "auto":
        name, reason = _fastest(network, data, augmentation, job, trial)
        return ENGINES[name](network, data, augmentation), reason
    if name in ("stacked", "graphed"):
        reason = _obstacle(network, data, augmentation, job, trial) or ""
        if not reason and (name == "graphed" or lifted_by_hand(network, data.device, data.dtype) is None):
            kind = GraphedEngine if name == "graphed" else StackedEngine
            reason = why_not_captured(kind(network, data, augmentation), job, trial) or ""
        if reason:
            raise UsageError(f"engine {name!r} cannot train this: {reason}; use --engine sequential")
    return ENGINES[name](network, data, augmentation), "asked for"


def _fastest(
    network: Network, data: ResidentData, augmentation: Augmentation, job: RoundJob, trial: ClientTask
) -> tuple[str, str]:
    by_hand = lifted_by_hand(network, data.device, data.dtype) is not None
    if is_supported(data):
        alone = why_one_by_one(job, len(trial.counts)) if by_hand else None
        if alone is not None:
            return "parallel", f"{cores()} processes, each client by itself: {alone}"
        if by_hand:
            return "stacked", f"on a CPU the fastest for models with a form written for stacks; {cores()} processes"
        return "parallel", f"on a CPU the fastest for this model; {cores()} processes"
    if data.device.type != "cuda":
        return "sequential", "the other CPU engine needs fork() and a PyTorch without a GPU"
    reason = _obstacle(network, data, augmentation, job, trial)
    if reason:
        return "sequential", f"the faster ones cannot train this: {reason}"
    if by_hand:
        return "stacked", "one captured step for the whole cohort: this model has a form written for stacks"
    small = job.recipe.batch_size <= SMALL and not network.has_batch_norm
    if small and why_not_captured(StackedEngine(network, data, augmentation), job, trial) is None:
        return "stacked", f"minibatches of {job.recipe.batch_size} do not fill a GPU one client at a time"
    reason = why_not_captured(GraphedEngine(network, data, augmentation), job, trial)
    if reason:
        return "sequential", f"the faster ones cannot train this: {reason}"
    return "graphed", "captured steps, clients side by side: works for any module that can be captured"


def _obstacle(
    network: Network, data: ResidentData, augmentation: Augmentation, job: RoundJob, trial: ClientTask
) -> str | None:
    """What in the model or the method stands in the way of the fast engines."""
    samples = Samples(network, data, augmentation).some(SAMPLES)
    return obstacle(network, job, samples) or why_one_by_one(job, len(trial.counts))
