"""K clients side by side: parameters, gradients and momentum as `[K, P]` matrices, one step for all of them.

Everything a step reads or writes stays where it is in memory, so that on CUDA a step can be captured and replayed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from ..flat import client_rows, copied, copy_each, unflattened
from ..lift.base import Forward, Lifted
from ..lift.columns import Columns, Land
from ..losses.term import ClientStatistics, LossInputs
from ..models.dropout import keyed
from ..models.network import ModelState
from ..steps import StepContext
from .base import ClientTask, RoundJob, Tensors, Update, finished
from .capture import Ahead, Replay
from .descent import Descent
from .gathering import Gathering, gathered
from .objective import SplitObjective
from .places import Places
from .rows import Waiting, WaitingRows
from .samples import Samples, previous_model
from .schedule import Block, Minibatches, blocks, minibatches
from .statistics import StackStatistics
from .teaching import TeacherInTraining, teaches_by_minibatch

SAMPLEWISE = ("teacher_logits", "teacher_features", "previous_features")
FEATURES = ("feature_sums", "feature_counts")


@dataclass(frozen=True)
class _Part:
    """What some neighbouring clients' steps read and write: views of the stack's tensors."""

    own: slice
    params: Tensors
    into: Tensors
    buffers: Tensors
    frozen: Tensors
    kept: Tensors
    losses: Tensor
    has_previous: Tensor
    client: ClientStatistics


class Stack:
    """Trains up to `capacity` clients at once."""

    def __init__(self, lifted: Lifted, samples: Samples, start: ModelState, capacity: int, *, batch_norm: bool) -> None:
        self.lifted, self.samples, self.capacity, self.batch_norm = lifted, samples, capacity, batch_norm
        self.device, self.dropout = samples.data.device, samples.network.has_dropout
        self.weights, self.params = client_rows(start.params, capacity)
        self.gradients, self.into = client_rows(start.params, capacity)
        self.velocity, _ = client_rows(start.params, capacity)
        self.descent = Descent(self.weights, self.gradients, self.velocity, start.params)
        self.buffers = {k: b.new_zeros(capacity, *b.shape) for k, b in start.buffers.items()}
        self.losses = torch.zeros(capacity, dtype=self.weights.dtype, device=self.device)
        self.step_number = torch.zeros(1, dtype=torch.int64, device=self.device)
        self.replay = Replay(self.device)
        self.ahead = Ahead[Tensors](self.device)
        self._held = Places(self.device, self.replay)
        self._parts: dict[tuple[int, int], _Part] = {}
        self._gathering: Gathering | None = None
        self.statistics: StackStatistics | None = None
        self.in_training: TeacherInTraining | None = None
        self.rows: WaitingRows | None = None
        self.kept: Tensors = {}
        self._job: RoundJob | None = None

    def train(self, job: RoundJob, tasks: Sequence[ClientTask]) -> Iterator[None]:
        """Train these clients, sorted by length; pauses after every launch, so that several stacks can take turns."""
        self._load(job, tasks)
        recipe = job.recipe
        padding = self.lifted.padding
        laid_out = functools.partial(
            minibatches,
            job,
            tasks,
            batch_norm=self.batch_norm,
            padding=padding,
            width=self.lifted.width,
            dropout=self.dropout,
        )
        each = [range(e, e + 1) for e in range(recipe.epochs)] if self.samples.change else [range(recipe.epochs)]
        ahead = self.ahead
        for epochs in each:
            batches = laid_out(epochs)
            self._place(ahead.take() if epochs.start else self.samples.prepare(job, tasks, 0), batches)
            placed = ahead.here()
            self.rows = self._rows(job, batches.lengths.shape[1])
            self.steps += (batches.lengths > 0).sum(1)
            self.seen += batches.lengths.sum(1)
            for block in blocks(batches, recipe.batch_size, padding):
                self.step_number.fill_(block.start)
                key = (block.first, block.last, block.width, block.padded)
                for left in reversed(range(block.stop - block.start)):
                    self.replay.run(key, functools.partial(self._step, block), left)
                    yield
            if epochs is not each[-1]:
                # The steps have been launched, not done: augmentation and teacher fill the gaps they leave, above all
                # at the end of an epoch, where few clients are still training.
                ahead.start(functools.partial(self.samples.prepare, job, tasks, epochs.start + 1), placed)

    @torch.no_grad()
    def finish(self) -> Callable[[], list[Update]]:
        """Set the clients' tensors aside; the function returned makes updates of them, in the order they were given.

        Apart, because reading a loss waits for the device: other stacks can be given work in between.
        """
        job, tasks, steps, seen, count = self._job, self.tasks, self.steps, self.seen, len(self.tasks)
        assert job is not None
        if self.rows is not None:
            self.losses += self.rows.finish(self.steps)
        losses = self.losses[:count].clone()
        states = self._states(job, [int(number) * self.moves for number in steps])
        momentum = [self._momentum(job, k) for k in range(count)]
        features: list[tuple[Tensor | None, Tensor | None]] = [(None, None)] * count
        if self.collects:
            features = list(zip(*(self._held[name][:count].clone().unbind() for name in FEATURES), strict=True))

        def updates() -> list[Update]:
            means = losses.double().cpu().numpy() / steps
            return [
                finished(job, task, states[k], float(means[k]), int(steps[k]), int(seen[k]), momentum[k], features[k])
                for k, task in enumerate(tasks)
            ]

        return updates

    def _states(self, job: RoundJob, moves: Sequence[int]) -> list[ModelState]:
        """The clients' models: views of one copy of the stack's memory, by client and name. moves: by how much steps
        would have moved BatchNorm's counters of batches, had they counted."""
        count, uncounted = len(moves), sorted(self.lifted.uncounted)
        params = unflattened(self.weights[:count].clone(), job.start.params)
        buffers = copied({name: value[:count] for name, value in self.buffers.items() if name not in uncounted})
        clients = {name: value.unbind() for name, value in (params | buffers).items()}
        counters = [job.start.buffers[name] for name in uncounted]
        counted = [torch._foreach_add(counters, by) if counters else () for by in moves]
        return [
            job.start.updated(
                {name: rows[k] for name, rows in clients.items()} | dict(zip(uncounted, own, strict=True))
            )
            for k, own in enumerate(counted)
        ]

    def _momentum(self, job: RoundJob, k: int) -> Tensors:
        if not job.recipe.persistent_momentum or job.recipe.momentum == 0:
            return {}
        rows = unflattened(self.velocity[k].clone(), job.start.params)
        return {f"momentum/{name}": value for name, value in rows.items()}

    @torch.no_grad()
    def _load(self, job: RoundJob, tasks: Sequence[ClientTask]) -> None:
        """Put the received model and the clients' own tensors in their places."""
        assert len(tasks) <= self.capacity
        if self._job is None or _fixed(job) != _fixed(self._job):
            self.replay.forget()
            self.kept = {}
        self._job, self.tasks, count = job, tasks, len(tasks)
        self._parts.clear()
        self._gathering = None
        if not self.replay.enabled:  # nothing has to stay where it was: room for what comes
            self._held.clear()
            self.kept = {}
        self.descent.follow(job.recipe)
        self.objective = SplitObjective(job.method.objective, self.device)
        self.at_once = job.method.step.is_gradient and not self.objective.of_params
        exchange = job.method.exchange
        self.collects = exchange is not None and exchange.collects_features
        needs = job.method.needs
        self.wants_features = self.collects or "features" in needs
        self.by_minibatch = teaches_by_minibatch(self.samples.network, job)
        known = needs - {"teacher_logits"} if self.by_minibatch else needs
        self.names = ("x", "y", *(name for name in SAMPLEWISE if name in known))
        self.steps, self.seen = (torch.zeros(count, dtype=torch.int64).numpy() for _ in range(2))
        copy_each(unflattened(self.weights[0], job.start.params), job.start.params)
        self.weights[1:] = self.weights[0]
        copy_each(self.buffers, {k: b.expand(self.capacity, *b.shape) for k, b in job.start.buffers.items()})
        self.velocity.zero_()
        if job.recipe.persistent_momentum:
            momentum = self._together(tasks, "momentum/")
            for name, row in unflattened(self.velocity[:count], job.start.params).items():
                if f"momentum/{name}" in momentum:
                    row.copy_(momentum[f"momentum/{name}"])
        self.losses.zero_()
        self.teacher = self._held.write_all("teacher", job.start.params)
        if self.by_minibatch:
            self.in_training = self.in_training or TeacherInTraining(self.lifted, job.start, self.capacity)
            self.in_training.receive(job.start)
        frozen = self._held.write_all("frozen", job.start.frozen)
        self.frozen = {name: value.expand(self.capacity, *value.shape) for name, value in frozen.items()}
        self.broadcast = self._held.write_all("broadcast", job.broadcast)
        counts = torch.stack([task.counts for task in tasks])
        self.statistics = self.statistics or StackStatistics(_filled(counts, self.capacity))
        self.statistics.update(_filled(counts, self.capacity))
        self.has_previous = self._held.write(
            "has_previous", _filled(torch.tensor([bool(previous_model(t)) for t in tasks]), self.capacity)
        )
        # Where clients before these had kept something, captured steps go on reading it.
        kept = {name: torch.zeros_like(place) for name, place in self.kept.items()}
        for name, rows in self._together(tasks, "previous/", "momentum/", others=True).items():
            kept[name] = _filled(rows, self.capacity)
        if kept.keys() != self.kept.keys():  # which decides, too, which operations a step is
            self.replay.forget()
        self.kept = self._held.write_all("kept", kept)
        for name in FEATURES:
            if name in self._held:
                self._held[name].zero_()

    def _rows(self, job: RoundJob, steps: int) -> WaitingRows | None:
        """The embedding, if tokens that are not in a minibatch follow at most a pull in its step: they can wait.

        On CPUs only: how many tokens a minibatch has differs from step to step, and a captured step has one shape.
        """
        name, pull, step = self.lifted.embedding, self.objective.pull, job.method.step
        if name is None or pull is None or self.replay.enabled or self.samples.change:
            return None
        if not (step.is_gradient or (step.keeps_zeros and pull == 0)):
            return None
        velocity = unflattened(self.velocity, job.start.params)[name]
        waiting = Waiting.of(job.recipe, pull, steps)
        return WaitingRows(name, job.start.params[name], self.params[name], velocity, waiting)

    def _together(self, tasks: Sequence[ClientTask], *kinds: str, others: bool = False) -> Tensors:
        """What clients kept of these kinds (or of all others), as `[K, ...]`; 0 for those that kept nothing yet."""
        some = {k: t for task in tasks for k, t in task.kept.items() if k.startswith(kinds) != others}
        nothing = {name: torch.zeros_like(like) for name, like in some.items()}
        return {name: torch.stack([task.kept.get(name, zero) for task in tasks]) for name, zero in nothing.items()}

    def _place(self, prepared: Tensors, batches: Minibatches) -> None:
        for name, value in prepared.items():
            self._held.write(name, value, grows=True)
        self._held.write("positions", torch.arange(batches.rows.shape[2], device=self.device))
        for name in ("rows", "lengths", "collected", *(["keys"] if self.dropout else [])):
            value = torch.from_numpy(getattr(batches, name))
            # Steps first: it is the number of steps that differs from round to round.
            self._held.write(name, _filled(value, self.capacity).transpose(0, 1).contiguous(), grows=True)

    @torch.no_grad()
    def _step(self, block: Block) -> None:
        """One minibatch of each of the block's clients."""
        job, held, part = self._job, self._held, self._part(block.first, block.last)
        own = part.own
        assert job is not None
        taken = self._gathered(block)
        point, into, x, teacher, rows = part.params, part.into, taken["x"], self.teacher, None
        real = taken["lengths"] if block.padded else None
        if self.by_minibatch:
            assert self.in_training is not None
            taken["teacher_logits"] = self.in_training.logits(own, part.frozen, part.buffers, x, real)
        sent: Mapping[str, Tensor] = self.broadcast
        if self.rows is not None:
            name, rows = self.rows.name, self.rows.take(own, x, int(self.step_number))
            x, sent = rows.minibatch, rows.of_sent(sent)
            point, into = {**point, name: rows.weights}, {**into, name: rows.gradient}
            if rows.received is not None:
                teacher = {**teacher, name: rows.received}
        inputs = LossInputs(
            logits=x,  # replaced at every point
            labels=taken["y"],
            sample_mask=taken["mask"],
            client=part.client,
            teacher_params=teacher,
            received=self.broadcast,
            has_previous=part.has_previous,
            teacher_logits=taken.get("teacher_logits"),
            teacher_features=taken.get("teacher_features"),
            previous_features=taken.get("previous_features"),
        ).knowing(**{name: taken[name] for name in ("padding", "real") if name in taken})
        keys = self._at_step(held["keys"])[own] if self.dropout else None
        landed: set[str] = set()
        # A gradient that nothing is added to and nobody else wants need not be kept until all are there.
        land = self.descent.at_once(own, landed) if self.at_once and rows is None else None
        gradient = _Gradient(self, part, x, real, keys, inputs, into, land)
        direction = job.method.step.direction(gradient, point, StepContext(sent, part.kept, leading=1))
        changed = {name: value for name, value in direction.items() if value is not into[name]}
        for name, value in changed.items():
            into[name].copy_(value)
        elsewhere = [(rows.weights, rows.gradient, rows.velocity)] if rows is not None else []
        self.descent.others(own, landed | ({rows.source.name} if rows is not None else set()), elsewhere)
        if rows is not None:
            rows.put_back()
        assert gradient.loss is not None
        part.losses.add_(gradient.loss)
        self.moves = gradient.moves
        if self.collects:
            assert gradient.features is not None
            collected = self._at_step(held["collected"])[own]
            self._collect(own, gradient.features, inputs.labels, taken["mask"] & collected.unsqueeze(1))
        self.step_number += 1

    def _gathered(self, block: Block) -> Tensors:
        """The minibatches of the step at hand."""
        if self.replay.enabled:
            return gathered(self._held, self.names, self.step_number, slice(block.first, block.last), block.width)
        here, step = self._gathering, int(self.step_number)
        if here is None or here.block is not block or step not in here.steps:
            here = self._gathering = Gathering(self._held, self.names, block, step)
        return here.at(step)

    def _at_step(self, each: Tensor) -> Tensor:
        """Of a tensor `[S, ...]` for all steps that of the step at hand, which a captured step looks up every time."""
        return each.index_select(0, self.step_number)[0] if self.replay.enabled else each[int(self.step_number)]

    def _part(self, first: int, last: int) -> _Part:
        """Made once a round: to make it takes as long as a small product."""
        if (first, last) not in self._parts:
            own = slice(first, last)
            named = (self.params, self.into, self.buffers, self.frozen, self.kept)
            params, into, buffers, frozen, kept = ({n: each[own] for n, each in some.items()} for some in named)
            losses, has_previous, client = self.losses[own], self.has_previous[own], self._statistics().of(own)
            self._parts[first, last] = _Part(own, params, into, buffers, frozen, kept, losses, has_previous, client)
        return self._parts[first, last]

    def _statistics(self) -> StackStatistics:
        assert self.statistics is not None
        return self.statistics

    def _collect(self, own: slice, features: Tensor, labels: Tensor, counted: Tensor) -> None:
        """Add the minibatches' features to each client's sums per class."""
        classes, held = self._statistics().all.counts.shape[1], self._held
        if "feature_sums" not in held:
            held["feature_sums"] = features.new_zeros(self.capacity, classes, features.shape[-1])
            held["feature_counts"] = features.new_zeros(self.capacity, classes)
        member = (labels.unsqueeze(-1) == torch.arange(classes, device=self.device)) & counted.unsqueeze(-1)
        weight = member.to(features.dtype)
        held["feature_sums"][own] += weight.transpose(1, 2) @ features
        held["feature_counts"][own] += weight.sum(1)


class _Gradient:
    """The objective's gradient on one minibatch of each client, at any point; written where the step reads it."""

    def __init__(
        self,
        stack: Stack,
        part: _Part,
        x: Tensor,
        lengths: Tensor | None,
        keys: Tensor | None,
        inputs: LossInputs,
        into: Tensors,
        land: Land | None,
    ) -> None:
        self.stack, self.x, self.lengths, self.keys, self.inputs, self.into = stack, x, lengths, keys, inputs, into
        self.part, self.land = part, land
        self.loss: Tensor | None = None
        self.features: Tensor | None = None
        self.moves = 0

    def __call__(self, point: Tensors, update_statistics: bool = True) -> Tensors:
        stack = self.stack
        with nullcontext() if self.keys is None else keyed(self.keys):
            forward: Forward = stack.lifted.forward(
                {**point, **self.part.frozen},
                self.part.buffers,
                self.x,
                self.lengths,
                features=stack.wants_features,
                statistics=update_statistics,
            )
        slopes = stack.objective.slopes(self.inputs, forward.logits, forward.features)
        if self.land is not None and isinstance(stack.lifted, Columns):
            stack.lifted.backward(forward, slopes.logits, slopes.features, self.into, self.land)
        else:
            stack.lifted.backward(forward, slopes.logits, slopes.features, self.into)
        more = stack.objective.add_parameter_terms(self.inputs, point, self.into)
        if self.loss is None:
            self.loss = slopes.loss if more is None else slopes.loss + more
            self.features = forward.features
        self.moves += update_statistics
        return self.into


def _fixed(job: RoundJob) -> tuple[object, ...]:
    """What decides which operations a step is."""
    return job.method, job.recipe, set(job.broadcast)


def _filled(rows: Tensor, count: int) -> Tensor:
    """`rows` with copies of the first one behind, `count` in all."""
    missing = count - len(rows)
    return torch.cat([rows, rows[:1].expand(missing, *rows.shape[1:])]) if missing else rows
