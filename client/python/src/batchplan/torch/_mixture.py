"""A mixture of sources that every global batch holds."""

from __future__ import annotations

import dataclasses
import fractions
import hashlib
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy
from numpy.typing import ArrayLike, NDArray

from batchplan._checks import number
from batchplan.torch._epoch_sizes import Ends

# Of proportions that are floats: 0.7 is 7 of 10.
_FINEST = 10**6
# How finely the global batch is told in which a unit is due.
_DUE_BITS = 32


@dataclasses.dataclass(frozen=True, eq=False)
class Mixture:
    """The source of each sequence, and how much of each source a global batch has.

        Mixture(["web"] * 6000 + ["code"] * 3000 + ["math"] * 1000, {"web": 0.5, "code": 0.3, "math": 0.2})

    Attributes:
        sources: one a sequence of the dataset, whole numbers or names.
        proportions: of each source in the sequences of a global batch, in any unit, above 0. None: those of the
            dataset, so that all sources run out together, at the epoch's end. Otherwise the epoch ends where the
            first source runs out; what is left of the others is not trained in it, and the next epoch draws anew.
    """

    sources: ArrayLike
    proportions: Mapping[Any, float] | None = None


class SourceShares:
    """A mixture of the sequences of an epoch.

    Attributes:
        source_of: of each position, the number of its source.
        count: sequences of an epoch, at most.
        identity: what global batches depend on, by name; JSON.
    """

    def __init__(
        self,
        mixture: Mixture,
        positions: NDArray[Any],
        sequences: int,
        group_of: NDArray[Any] | None,
    ) -> None:
        """
        Args:
            positions: of the dataset, those that are trained.
            sequences: of the dataset.
            group_of: of each position, the number of its group, which stays together; None: none does.

        Raises:
            ValueError: sources are not one a sequence, proportions are not one a source above 0, or groups that stay
                together have sequences of several sources, or different sizes.
        """
        if not isinstance(mixture, Mixture):
            raise ValueError(f"mixture is {mixture!r}; must be a batchplan.torch.Mixture")
        try:
            sources = numpy.asarray(mixture.sources)
        except ValueError as error:
            raise ValueError(f"mixture.sources is no array: {error}") from None
        if sources.ndim != 1 or len(sources) != sequences:
            raise ValueError(f"mixture.sources has shape {sources.shape}; must be ({sequences},), one a sequence")
        if sources.dtype.kind not in "iuU" and sequences:
            raise ValueError(f"mixture.sources has dtype {sources.dtype}; must be of whole numbers or names")
        names, numbers = numpy.unique(sources, return_inverse=True)
        digest = hashlib.sha256(repr(names.tolist()).encode() + numbers.astype(numpy.uint32).tobytes())
        # Of some, all sequences may be left out.
        kept, self.source_of = numpy.unique(numbers[positions], return_inverse=True)
        self._names = names[kept].tolist()
        self._held = numpy.bincount(self.source_of, minlength=len(kept)).tolist()
        self._unit = 1
        if group_of is not None and len(positions):
            self._unit = _size_of_groups(group_of, self.source_of)
        self._weights = self._held if mixture.proportions is None else self._given(mixture.proportions)
        whole = sum(self._weights)
        # Where the first source ends, in whole units.
        most = min((held * whole // own for held, own in zip(self._held, self._weights)), default=0)
        self.count = most // self._unit * self._unit
        self.identity = {
            "sources": digest.hexdigest(),
            "proportions": None if mixture.proportions is None else dict(zip(map(str, self._names), self._weights)),
        }

    def _given(self, proportions: Mapping[Any, float]) -> list[int]:
        """As whole numbers, by source."""
        if not isinstance(proportions, Mapping):
            raise ValueError(f"mixture.proportions is {proportions!r}; must be a mapping from each source")
        for name in proportions:
            if name not in self._names:
                raise ValueError(f"mixture.proportions has {name!r}, which no sequence has as its source")
        parts = []
        for name in self._names:
            if name not in proportions:
                raise ValueError(f"mixture.proportions has no {name!r}, which sequences have as their source")
            value = number(f"mixture.proportions[{name!r}]", proportions[name])
            part = fractions.Fraction(value).limit_denominator(_FINEST) if math.isfinite(value) else None
            if part is None or part <= 0:
                raise ValueError(f"mixture.proportions[{name!r}] is {value}; must be at least {1 / _FINEST}, finite")
            parts.append(part)
        denominator = math.lcm(*(part.denominator for part in parts))
        weights = [int(part * denominator) for part in parts]
        divisor = math.gcd(*weights)
        return [one // divisor for one in weights]

    def whole(self, ends: Ends) -> Ends:
        """Where groups that stay together end."""
        return ends - ends % self._unit

    def check(self, batch_sizes: Iterable[int]) -> None:
        """Raises ValueError where groups that stay together do not divide one."""
        for batch_size in batch_sizes:
            if batch_size % self._unit == 0:
                continue
            raise ValueError(
                f"batch_size is {batch_size}; must be a multiple of {self._unit}, the sequences of each group, which "
                "stay together and hold the mixture's shares"
            )

    def counts(self, ends: Ends) -> NDArray[numpy.int64]:
        """Sequences of each source in each global batch, shape [steps, sources]: their share, rounded up or down.
        What is rounded off is carried over."""
        units = numpy.diff(ends, prepend=0) // self._unit
        held = [count // self._unit for count in self._held]
        dealt, drift = _dealt(units.tolist(), self._weights, held, by_due=True)
        if drift >= 1:
            # Rare, and the other way is then mostly nearer.
            other, least = _dealt(units.tolist(), self._weights, held, by_due=False)
            dealt = other if least < drift else dealt
        return numpy.array(dealt, numpy.int64).reshape(len(ends), -1) * self._unit

    def drawn(self, positions: NDArray[Any], order: NDArray[Any], counts: NDArray[numpy.int64]) -> NDArray[Any]:
        """Positions in an order in which each global batch has its count of each source: of each the next ones.

        Args:
            positions: ascending, those of source_of.
            order: of all positions, with groups that stay together in one piece within their source.
            counts: as counts() has them.
        """
        source_of = self.source_of[numpy.searchsorted(positions, order)]
        batch_of = numpy.full(len(order), len(counts))
        for source in range(len(self._names)):
            own = numpy.flatnonzero(source_of == source)
            batch_of[own] = numpy.searchsorted(numpy.cumsum(counts[:, source]), numpy.arange(len(own)), "right")
        return order[batch_of.argsort(kind="stable")][: int(counts.sum())]


    def evened(self, positions: NDArray[Any], batches: list[NDArray[Any]], least: int) -> list[NDArray[Any]]:
        """Global batches of which the last one, if it has too few sequences, and the one before it become alike in
        size and in each source.

        Args:
            positions: ascending, those of source_of.
        """
        if len(batches) < 2 or len(batches[-1]) >= least:
            return batches
        both = numpy.concatenate(batches[-2:])
        both = both[self.source_of[numpy.searchsorted(positions, both)].argsort(kind="stable")]
        return [*batches[:-2], both[::2], both[1::2]]


def _size_of_groups(group_of: NDArray[Any], source_of: NDArray[Any]) -> int:
    """Sequences of every group.

    Raises:
        ValueError: they differ, or a group has several sources.
    """
    _, firsts, sizes = numpy.unique(group_of, return_index=True, return_counts=True)
    if (source_of != source_of[firsts[group_of]]).any():
        raise ValueError(
            "mixture.sources are several in one of group_ids, and groups stay together: give each one source"
        )
    if (sizes != sizes[0]).any():
        raise ValueError(
            f"group_ids has groups of {sizes.min()} to {sizes.max()} sequences, which stay together: with a mixture "
            "all must be alike in size, as global batches could not hold each source's share"
        )
    return int(sizes[0])


def _dealt(
    sizes: list[int], weights: list[int], held: list[int], *, by_due: bool
) -> tuple[list[list[int]], fractions.Fraction]:
    """Each batch's units of each source, its share rounded up or down; and how far the sum over batches is from the
    shares at most. With whole numbers, the same on every machine.

    Who is rounded up: whose next unit is due the soonest, or else whose sum is the farthest behind.
    """
    whole = sum(weights)
    numbers = range(len(weights))
    summed = [0] * len(weights)
    end, drift = 0, 0
    dealt = []
    for size in sizes:
        end += size
        own = [min(size * weight // whole, held[one] - summed[one]) for one, weight in enumerate(weights)]
        rests = [size * weight % whole for weight in weights]
        behind = [end * weights[one] - whole * (summed[one] + own[one]) for one in numbers]

        def turn(one: int) -> tuple[Any, ...]:
            if by_due and rests[one]:
                due = (whole - behind[one] << _DUE_BITS) // rests[one]
                return (behind[one] < whole, behind[one] <= 0, due, one)
            return (not rests[one], True, -behind[one], one)

        left = size - sum(own)
        # Once more only where a source has none left.
        while left:
            for one in sorted(numbers, key=turn):
                if left and summed[one] + own[one] < held[one]:
                    own[one] += 1
                    left -= 1
        summed = [one + more for one, more in zip(summed, own)]
        drift = max(drift, *(abs(end * weight - whole * one) for weight, one in zip(weights, summed)))
        dealt.append(own)
    return dealt, fractions.Fraction(drift, max(whole, 1))
