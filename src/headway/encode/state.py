"""Turn a Situation into one vector: bias, text, numbers, fixed-length vectors, categories, summarised sequences.

    features = fit(situations, encoder)              # one pass over a stream, bounded memory
    features.vectors(situations, encoder)            # float64 [row, width]
    Features.from_json(features.to_json())           # the form in a bundle

Layout: `[1, text…, log(1+characters), numbers…, vectors…, sequence summaries…, one-hot categories…]`.

- Numbers (and true/false as 1/0) are standardised with the stored mean and deviation; a missing number becomes 0.
- A sequence that always had the same length (at most 512) is that many numbers; a sequence of varying length is
  summarised by its mean, last, least, greatest and length.
- A category is one-hot over its 32 most frequent values, with one more entry for all other values.
- Names that did not occur during fitting are ignored; NaN and infinity are refused (`not_finite`).

**Every entry is a multiple of 2**-14 between −8 and 8.** Products of such entries with rounded weights add up exactly
in float64, in any order of a BLAS: a row alone and the same row in a batch get bit-equal scores, replay is exact on
every machine, and sums of outer products can be subtracted again exactly.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np

from headway.nouns import MARK, Encoder, Floats, Situation, errors, without

SUMMARY = ("mean", "last", "least", "greatest", "length")


def summarise(values: Sequence[float]) -> tuple[float, ...]:
    """Five numbers for a sequence of any length, in the order of SUMMARY; an empty sequence gives zeros."""
    if not len(values):
        return (0.0,) * len(SUMMARY)
    return (sum(values) / len(values), float(values[-1]), float(min(values)), float(max(values)), float(len(values)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """The map from situations of one task to vectors. Immutable; it includes the version of the encoder."""

    GRID: ClassVar[float] = 2.0**-14  # every entry is a multiple of this
    LIMIT: ClassVar[float] = 8.0  # and no larger than this
    encoder: str = ""  # the version of the text encoder; empty: text is not used
    text_width: int = 0
    numbers: tuple[str, ...] = ()
    vectors_of: tuple[tuple[str, int], ...] = ()  # name and fixed length
    sequences: tuple[str, ...] = ()
    categories: tuple[tuple[str, tuple[str, ...]], ...] = ()  # name ("role" is the situation's own) and its values
    means: tuple[float, ...] = ()  # of text length (if text is used), numbers, vectors and summaries, in this order
    scales: tuple[float, ...] = ()
    width: int = field(init=False, compare=False)
    plain_width: int = field(init=False, compare=False)  # the number of standardised numbers
    _gain: Floats = field(init=False, repr=False, compare=False)
    _offset: Floats = field(init=False, repr=False, compare=False)
    _shifted: bool = field(init=False, repr=False, compare=False)
    _empty: Floats = field(init=False, repr=False, compare=False)  # a row with only the bias
    _places: tuple[dict[str, int], ...] = field(init=False, repr=False, compare=False)
    _start: int = field(init=False, repr=False, compare=False)
    _pick: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        fixed = sum(length for _, length in self.vectors_of)
        plain = bool(self.text_width) + len(self.numbers) + fixed + len(SUMMARY) * len(self.sequences)
        width = 1 + self.text_width + plain + sum(len(values) + 1 for _, values in self.categories)
        object.__setattr__(self, "plain_width", plain)
        object.__setattr__(self, "width", width)
        if len(self.means) != plain or len(self.scales) != plain:
            raise errors.Damaged(
                f"The features store {len(self.means)} means and {len(self.scales)} scales for {plain} numbers.",
                code="damaged_features",
            )
        mean, scale = np.array(self.means, dtype=np.float64), np.array(self.scales, dtype=np.float64)
        if not (np.isfinite(mean).all() and np.isfinite(scale).all() and (scale > 0).all()):
            raise errors.Damaged(
                "The features store a mean or scale that is not a usable number.", code="damaged_features"
            )
        gain = np.full(width, 1.0 / self.GRID)
        offset = np.zeros(width)
        start = 1 + self.text_width
        gain[start : start + plain] = 1.0 / (self.GRID * scale)
        offset[start : start + plain] = -mean / (self.GRID * scale)
        object.__setattr__(self, "_shifted", bool(offset.any()))
        object.__setattr__(self, "_gain", gain)
        object.__setattr__(self, "_offset", offset)
        empty = np.zeros(width)
        empty[0] = 1.0
        object.__setattr__(self, "_empty", empty)
        places = tuple({value: place for place, value in enumerate(values)} for _, values in self.categories)
        object.__setattr__(self, "_places", places)
        object.__setattr__(self, "_start", start)
        names = list(self.numbers) or [name for name, _ in self.vectors_of]
        others = self.text_width or self.sequences or (self.numbers and self.vectors_of)
        quick = not others and len(names) > 1 if self.numbers else not others and len(names) == 1
        object.__setattr__(self, "_pick", itemgetter(*names) if quick else None)

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each entry of the vector, for `explain`."""
        names = ["bias", *(f"text[{i}]" for i in range(self.text_width))]
        names += ["text.length"] if self.text_width else []
        names += self.numbers
        names += [f"{name}[{i}]" for name, length in self.vectors_of for i in range(length)]
        names += [f"{name}.{what}" for name in self.sequences for what in SUMMARY]
        names += [f"{name}={value}" for name, values in self.categories for value in (*values, "…")]
        return tuple(names)

    def vectors(self, situations: Sequence[Situation], encoder: Encoder | None = None) -> Floats:
        """float64 [row, width]. Row i depends on situation i alone, bit for bit."""
        single = len(situations) == 1
        work: Floats = self._empty.copy() if single else np.repeat(self._empty[None, :], len(situations), axis=0)
        raw: Floats = work[None, :] if single else work  # of a single row, numpy is quicker in one dimension
        if self.text_width:
            raw[:, 1 : 1 + self.text_width] = self._encode(situations, encoder)
        if self.means and single:
            work[self._start : self._start + self.plain_width] = self._plain(situations[0])
        elif self.means:
            self._fill(raw[:, self._start : self._start + self.plain_width], situations)
        if self.categories:
            self._mark(raw, situations)
        work *= self._gain
        if self._shifted:
            work += self._offset
        np.rint(work, out=work)
        # If the sum of squares is within the limit, no entry needs clipping and none is NaN.
        squares = work.dot(work) if single else np.einsum("ij,ij->i", raw, raw).max(initial=0.0)
        if not squares <= (self.LIMIT / self.GRID) ** 2:
            if not np.isfinite(raw).all():
                self._refuse(situations)
            np.minimum(raw, self.LIMIT / self.GRID, out=raw)
            np.maximum(raw, -self.LIMIT / self.GRID, out=raw)
        work *= self.GRID
        return raw

    def _fill(self, plain: Floats, situations: Sequence[Situation]) -> None:
        """Write the raw numbers of several rows: at once if every row is complete, else one by one."""
        if self._pick is not None:
            try:
                block = np.array([self._pick(situation.state) for situation in situations])
                if block.shape == plain.shape and block.dtype.kind in "fiub":
                    plain[:] = block
                    return
            except (KeyError, TypeError, ValueError, OverflowError):
                pass
        if self.text_width and self.plain_width == 1:
            plain[:, 0] = [math.log1p(len(situation.text)) for situation in situations]
            return
        for row, one in enumerate(situations):
            plain[row] = self._plain(one)

    def _mark(self, raw: Floats, situations: Sequence[Situation]) -> None:
        """Set the one-hot entries; a missing category stays zero."""
        start, single = self._start + self.plain_width, len(situations) == 1
        for (name, values), places in zip(self.categories, self._places, strict=True):
            other = len(values)
            if single:
                value = situations[0].role or None if name == "role" else situations[0].state.get(name)
                if isinstance(value, str):
                    raw[0, start + places.get(value, other)] = 1.0
            else:
                by_role = name == "role"
                found = [one.role or None if by_role else one.state.get(name) for one in situations]
                columns = np.array([places.get(one, other) if isinstance(one, str) else -1 for one in found])
                rows = np.flatnonzero(columns >= 0)
                raw[rows, start + columns[rows]] = 1.0
            start += other + 1

    def _encode(self, situations: Sequence[Situation], encoder: Encoder | None) -> Floats:
        if encoder is None or encoder.version != self.encoder:
            raise errors.Damaged(
                f"These features need the encoder {self.encoder!r}, not {getattr(encoder, 'version', None)!r}.",
                code="encoder_mismatch",
                hint="Set `encoder` of the task to the encoder of the policy, or learn again.",
            )
        texts: list[str] = []
        for situation in situations:
            text = situation.text
            texts.append(without(text) if MARK in text else text)  # redaction marks are not features
        return encoder.encode(texts)

    def _plain(self, situation: Situation) -> array[float]:
        """The raw standardisable numbers of one situation; a missing one is its mean, which standardises to 0."""
        state = situation.state
        if self._pick is not None:  # one vector or only numbers: the common cases of a numeric state
            try:
                quick = array("d", self._pick(state))
                if len(quick) == self.plain_width:
                    return quick
            except (KeyError, TypeError, OverflowError):
                pass
        values = array("d")
        means = self.means
        if self.text_width:
            values.append(math.log1p(len(situation.text)))
        for name in self.numbers:
            value = state.get(name)
            values.append(means[len(values)] if not isinstance(value, int | float) else _number(name, value))
        for name, length in self.vectors_of:
            value = state.get(name)
            row = _numbers(name, value) if _is_sequence(value) else None
            values.extend(means[len(values) : len(values) + length] if row is None or len(row) != length else row)
        for name in self.sequences:
            value = state.get(name)
            values.extend(
                summarise(_numbers(name, value))
                if _is_sequence(value)
                else means[len(values) : len(values) + len(SUMMARY)]
            )
        return values

    def _refuse(self, situations: Sequence[Situation]) -> None:
        for situation in situations:
            plain = self._plain(situation)
            for place, value in enumerate(plain):
                if not math.isfinite(value):
                    raise errors.InvalidInput(
                        f"The state of task {situation.task!r} has {self.names[self._start + place]!r} = {value!r}.",
                        code="not_finite",
                        hint="Omit the value if it is unknown.",
                    )
        # A finite value that overflows after standardising is very large: it is clipped.

    def to_json(self) -> dict[str, Any]:
        return {
            "format": 1,
            "encoder": self.encoder,
            "text_width": self.text_width,
            "numbers": list(self.numbers),
            "vectors": [[name, length] for name, length in self.vectors_of],
            "sequences": list(self.sequences),
            "categories": [[name, list(values)] for name, values in self.categories],
            "means": list(self.means),
            "scales": list(self.scales),
        }

    @classmethod
    def read(cls, extra: Mapping[str, Any], encoder: Encoder | None) -> Features:
        """The features in a bundle's header; the encoder must be the one that the policy was learned with."""
        stored = extra.get("features")
        if not isinstance(stored, Mapping):
            hint = "The file was changed or cut short: restore it, or roll back."
            raise errors.Damaged("The bundle has no features.", code="bad_header", hint=hint)
        features = cls.from_json(stored)
        if features.encoder and (encoder is None or encoder.version != features.encoder):
            raise errors.Damaged(
                f"The policy needs the encoder {features.encoder!r}, not {getattr(encoder, 'version', None)!r}.",
                code="encoder_mismatch",
                hint="Set `encoder` of the task to the one that it was learned with, or learn again.",
            )
        return features

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Features:
        """The features that `to_json` wrote, equal in every bit; anything else raises Damaged (`damaged_features`)."""
        try:
            if data["format"] != 1 or set(data) != _FIELDS:
                raise ValueError("unknown format or fields")
            features = cls(
                encoder=_text(data["encoder"]),
                text_width=_count(data["text_width"]),
                numbers=tuple(_text(name) for name in data["numbers"]),
                vectors_of=tuple((_text(name), _count(length)) for name, length in data["vectors"]),
                sequences=tuple(_text(name) for name in data["sequences"]),
                categories=tuple(
                    (_text(name), tuple(_text(value) for value in values)) for name, values in data["categories"]
                ),
                means=tuple(_real(value) for value in data["means"]),
                scales=tuple(_real(value) for value in data["scales"]),
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise errors.Damaged(f"The stored features cannot be read: {error}.", code="damaged_features") from error
        if features.width > 1 << 16:
            raise errors.Damaged(f"The stored features are {features.width} wide.", code="damaged_features")
        return features


_FIELDS = {"format", "encoder", "text_width", "numbers", "vectors", "sequences", "categories", "means", "scales"}


def _is_sequence(value: object) -> bool:
    return isinstance(value, list | tuple) or (isinstance(value, Sequence) and not isinstance(value, str | bytes))


def _number(name: str, value: float) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise errors.InvalidInput(
            f"The state's {name!r} is too large for a number.", code="not_finite", hint="Omit the value."
        ) from error


def _numbers(name: str, values: Any) -> array[float]:
    try:
        return array("d", values)
    except (TypeError, OverflowError) as error:
        raise errors.InvalidInput(
            f"The state's {name!r} contains a value that is not a number: {values!r:.80}.",
            code="bad_state",
            hint="A sequence in the state is a list of numbers.",
        ) from error


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 1 << 16:
        raise TypeError(f"{value!r} is not a count")
    return value


def _real(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not a number")
    return float(value)
