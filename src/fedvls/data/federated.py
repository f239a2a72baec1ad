"""The data of a federation before it is divided among clients: training set, untouched test set, and their scale."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, UsageError
from .arrays import (
    MAX_CLASSES,
    Array,
    Scale,
    as_array,
    as_labels,
    as_samples,
    as_scale,
    as_tokens,
    number_of_tokens,
    refuse_labels_outside,
)
from .members import Positions, as_domain_names, as_domains, as_positions, is_one_per_client, join


@dataclass(frozen=True, eq=False, repr=False)
class FederatedData:
    """Samples and labels, checked on construction: whatever exists of this type can be trained on.

    x_train, x_test: samples along the first axis; uint8, float32 or float64. Images are (channels, height, width).
    y_train, y_test: class numbers 0..classes-1.
    mean, std: per channel (the first axis of a three-axis sample; any other sample has one channel). Where samples
        are used they become (x - mean) / std, with uint8 divided by 255 first and floats taken as they are. None: no
        such step.
    vocabulary: x holds tokens 0..vocabulary-1 (int32), which are never scaled; None: x holds measurements.
    domains: names of the domains samples come from; domain_train, domain_test: the number of each sample's domain.
    clients: data that are divided already: for every client the positions of its training samples.
    spec: the arguments of `load_dataset` that load this again; None for arrays that came from memory.
    scored_on: "train" where the test set is the training set, which only the study of another program's numbers wants.
    """

    x_train: Array
    y_train: NDArray[np.int64]
    x_test: Array
    y_test: NDArray[np.int64]
    classes: int
    class_names: tuple[str, ...] = ()
    name: str = "arrays"
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    spec: Mapping[str, Any] | None = None
    vocabulary: int | None = None
    domains: tuple[str, ...] = ()
    domain_train: NDArray[np.int64] | None = None
    domain_test: NDArray[np.int64] | None = None
    clients: Positions | None = None
    scored_on: Literal["test", "train"] = "test"

    @classmethod
    def from_arrays(
        cls,
        x: object,
        y: object,
        x_test: object,
        y_test: object,
        *,
        classes: int | None = None,
        class_names: Sequence[str] | None = None,
        name: str = "arrays",
        mean: Scale | None = None,
        std: Scale | None = None,
        vocabulary: int | None = None,
        domains: Sequence[str] = (),
        domain_train: object = None,
        domain_test: object = None,
        clients: Sequence[object] | None = None,
    ) -> FederatedData:
        """Data from arrays, lists or tensors.

        x, y: samples and their labels. A list of arrays (of two or more axes) with a list of as many rows of labels is
            data that are divided among clients already, as in `from_clients`; a list of images with single labels is
            one set of samples.
        classes: the number of class names, or else one more than the largest label of both sets.
        mean, std: one number, or one per channel. By default 0.5 and 0.5 for uint8 (so values span -1..1), and none
            for floats and tokens.
        vocabulary: the samples are rows of tokens 0..vocabulary-1.
        domains, domain_train, domain_test: names of domains, and for every sample the number of its own.
        clients: for every client the positions of its training samples, if they are divided already.
        """
        if clients is None and is_one_per_client(x, y):
            x, y, clients = join(x, y, "train", vocabulary)
        if is_one_per_client(x_test, y_test):
            x_test, y_test, _ = join(x_test, y_test, "test", vocabulary)
        x_train, labels, test_labels = as_array(x, "x_train"), as_labels(y, "y_train"), as_labels(y_test, "y_test")
        if classes is None:
            classes = len(class_names) if class_names else int(max(labels.max(), test_labels.max())) + 1
        if x_train.dtype == np.uint8 and mean is None and std is None and vocabulary is None:
            mean = std = 0.5
        return cls(
            x_train,
            labels,
            as_array(x_test, "x_test"),
            test_labels,
            classes=classes,
            class_names=tuple(class_names or ()),
            name=name,
            # construction brings these into the form that is declared, or says what is wrong with them
            mean=cast("tuple[float, ...] | None", mean),
            std=cast("tuple[float, ...] | None", std),
            vocabulary=vocabulary,
            domains=tuple(domains),
            domain_train=cast("NDArray[np.int64] | None", domain_train),
            domain_test=cast("NDArray[np.int64] | None", domain_test),
            clients=cast("Positions | None", clients),
        )

    @classmethod
    def from_clients(
        cls, xs: Sequence[object], ys: Sequence[object], x_test: object, y_test: object, **keywords: Any
    ) -> FederatedData:
        """Data that are divided among clients already: one array of samples and one row of labels per client.

        x_test, y_test: the common test set, or one per client, which are joined.
        keywords: those of `from_arrays`; `domain_train` has one entry per sample, in the order of the clients.

        The arrays are joined, and `clients` keeps whose sample is whose; the partition `given` uses it.
        """
        x, y, clients = join(xs, ys, "train", keywords.get("vocabulary"))
        return cls.from_arrays(x, y, x_test, y_test, **keywords, clients=clients)

    def __post_init__(self) -> None:
        vocabulary = None if self.vocabulary is None else number_of_tokens(self.vocabulary)
        if vocabulary is None:
            x_train, x_test = as_samples(self.x_train, "x_train"), as_samples(self.x_test, "x_test")
        else:
            if self.mean is not None or self.std is not None:
                raise UsageError("tokens are not scaled: leave out mean and std where there is a vocabulary")
            x_train, x_test = (as_tokens(getattr(self, x), x, vocabulary) for x in ("x_train", "x_test"))
        y_train, y_test = as_labels(self.y_train, "y_train"), as_labels(self.y_test, "y_test")
        x_train, x_test = _agreeing(x_train, x_test)
        classes = _number_of_classes(self.classes)
        for part, x, y in (("train", x_train, y_train), ("test", x_test, y_test)):
            if len(x) != len(y):
                raise DataError(f"x_{part} has {len(x)} samples but y_{part} has {len(y)} labels")
            refuse_labels_outside(y, classes, f"y_{part}")
        class_names = tuple(map(str, self.class_names)) or tuple(map(str, range(classes)))
        if len(class_names) != classes:
            raise UsageError(f"class_names has {len(class_names)} names for {classes} classes")
        channels = _channels(x_train.shape[1:])
        mean, std = as_scale(self.mean, channels, "mean"), as_scale(self.std, channels, "std")
        if (mean is None) != (std is None):
            raise UsageError(f"mean = {mean} and std = {std}: give both or neither")
        if std is not None and min(std) <= 0:
            raise UsageError(f"std = {std} must be above 0 in every channel")
        checked = {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test, "classes": classes}
        checked |= {"class_names": class_names, "mean": mean, "std": std, "vocabulary": vocabulary}
        for key, value in {**checked, **self._members(len(y_train), len(y_test))}.items():
            object.__setattr__(self, key, value)

    def _members(self, train: int, test: int) -> dict[str, Any]:
        """Domains and clients, checked."""
        domains = as_domain_names(self.domains)
        parts = {"domain_train": self.domain_train, "domain_test": self.domain_test}
        if any((part is not None) != bool(domains) for part in parts.values()):
            raise UsageError("domains, domain_train and domain_test belong together: give all three or none")
        checked: dict[str, Any] = {
            key: None if part is None else as_domains(part, domains, train if key == "domain_train" else test, key)
            for key, part in parts.items()
        }
        for untested in set(range(len(domains))) - set(np.unique(checked["domain_test"]) if domains else ()):
            raise DataError(f"domain {domains[untested]!r} has no test sample: accuracy is measured on every domain")
        clients = None if self.clients is None else as_positions(self.clients, train)
        return {**checked, "domains": domains, "clients": clients}

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return self.x_train.shape[1:]

    @cached_property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that change with any sample, label, type, shape, scale or number of classes.

        Also with the vocabulary, domains and clients of data that have them.
        """
        digest = hashlib.sha256()
        for array in (self.x_train, self.y_train, self.x_test, self.y_test):
            digest.update(f"{array.dtype.str} {array.shape};".encode())
            digest.update(array.data)
        digest.update(f"{self.mean} {self.std} {self.classes}".encode())
        if self.vocabulary is not None:
            digest.update(f" vocabulary {self.vocabulary}".encode())
        if self.domains:
            digest.update(f" domains {self.domains}".encode())
        for kind, rows in (("domain", (self.domain_train, self.domain_test)), ("client", self.clients or ())):
            for row in rows:
                if row is not None:
                    digest.update(f" {kind} {len(row)};".encode())
                    digest.update(np.ascontiguousarray(row).data)
        return digest.hexdigest()[:16]

    def describe(self) -> dict[str, Any]:
        """What a run's header says about the data; ready for JSON."""
        about: dict[str, Any] = {
            "name": self.name,
            "train_samples": len(self.y_train),
            "test_samples": len(self.y_test),
            "sample_shape": list(self.sample_shape),
            "dtype": str(self.x_train.dtype),
            "classes": self.classes,
            "class_names": list(self.class_names),
            "mean": None if self.mean is None else list(self.mean),
            "std": None if self.std is None else list(self.std),
            "fingerprint": self.fingerprint,
        }
        if self.vocabulary is not None:
            about["vocabulary"] = self.vocabulary
        if self.domain_train is not None and self.domain_test is not None:
            sizes = [np.bincount(part, minlength=len(self.domains)) for part in (self.domain_train, self.domain_test)]
            about["domains"] = {
                name: {"train_samples": int(train), "test_samples": int(test)}
                for name, train, test in zip(self.domains, *sizes, strict=True)
            }
        if self.clients is not None:
            about["clients"] = [len(own) for own in self.clients]
        if self.scored_on == "train":
            about["scores"] = "ON TRAINING DATA: the test samples are the training samples"
        return about

    def __repr__(self) -> str:
        return (
            f"FederatedData({self.name!r}: {len(self.y_train)} train, {len(self.y_test)} test, "
            f"samples {self.sample_shape} {self.x_train.dtype}, {self.classes} classes"
            + (f", vocabulary of {self.vocabulary}" if self.vocabulary is not None else "")
            + (f", domains {', '.join(self.domains)}" if self.domains else "")
            + (f", {len(self.clients)} clients" if self.clients is not None else "")
            + ")"
        )


def _channels(sample_shape: tuple[int, ...]) -> int:
    return sample_shape[0] if len(sample_shape) == 3 else 1


def _agreeing(x_train: Array, x_test: Array) -> tuple[Array, Array]:
    """Both sets in one shape and one type."""
    if x_train.shape[1:] != x_test.shape[1:]:
        raise DataError(f"x_test samples have shape {x_test.shape[1:]} but x_train samples {x_train.shape[1:]}")
    if x_train.dtype == x_test.dtype:
        return x_train, x_test
    if np.uint8 in (x_train.dtype, x_test.dtype):  # uint8 is divided by 255 and floats are not
        raise DataError(
            f"x_train is {x_train.dtype} but x_test is {x_test.dtype}: give both as uint8 or both as floats"
        )
    return x_train.astype(np.float64, copy=False), x_test.astype(np.float64, copy=False)


def _number_of_classes(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise UsageError(f"classes = {value!r} must be a whole number")
    if not 2 <= value <= MAX_CLASSES:
        raise UsageError(
            f"classes = {value}: a classifier needs at least 2 classes (and at most {MAX_CLASSES} are allowed)"
        )
    return int(value)
