"""Numbers as people write them: no more digits than they deserve, and powers of ten that are powers of ten."""

from __future__ import annotations

from math import floor, isfinite, log10
from typing import NamedTuple

from vsbq.markup import Markup, element, joined

__all__ = ["Digits", "count", "given", "in_power", "interval", "plain", "seconds", "share", "signed", "small", "ticks"]

#: Steps between ticks, times a power of ten.
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
MINUS = "−"
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Digits(NamedTuple):
    """How the numbers of one row are written: a power of ten that is taken out, and decimals."""

    power: int
    decimals: int

    @classmethod
    def of(cls, size: float, spread: float, significant: int = 3) -> Digits:
        """For numbers of some size that differ by about `spread`, of which so many digits are shown."""
        power = _power(max(abs(size), spread))
        scaled = spread / 10.0**power if isfinite(spread) and spread > 0 else abs(size) / 10.0**power
        digits = significant - 1 - floor(log10(scaled)) if isfinite(scaled) and scaled > 0 else significant
        return cls(power, min(max(digits, 0), 12))

    def write(self, value: float) -> str:
        """One number, without the power of ten."""
        if not isfinite(value):
            return _not_finite(value)
        scaled = round(value / 10.0**self.power, self.decimals) + 0.0  # turns −0.0 into 0.0
        return f"{scaled:.{self.decimals}f}".replace("-", MINUS)

    @property
    def unit(self) -> Markup:
        """The power of ten as a factor; nothing if it is 1."""
        return joined() if self.power == 0 else joined("×\u00a010", element("sup", in_minus(self.power)))

    @property
    def unit_text(self) -> str:
        """The same without HTML."""
        return f"×\u00a010{str(self.power).translate(RAISED)}" if self.power else ""


def _power(size: float) -> int:
    """The power of ten to take out of a number; 0 where plain digits read well."""
    exponent = floor(log10(size)) if isfinite(size) and size > 0 else 0
    return max(exponent, -300) if exponent < -3 or exponent > 4 else 0


def in_minus(number: int) -> str:
    """A whole number with a true minus sign."""
    return str(number).replace("-", MINUS)


def _not_finite(value: float) -> str:
    return "not known" if value != value else "∞" if value > 0 else f"{MINUS}∞"


def plain(value: float, significant: int = 4) -> Markup:
    """One number by itself."""
    digits = Digits.of(value, abs(value), significant)
    if not isfinite(value) or digits.power == 0:
        return joined(_whole(value) or digits.write(value))
    return joined(digits.write(value), "\u00a0", digits.unit)


def _whole(value: float) -> str | None:
    return in_minus(int(value)) if isfinite(value) and value == int(value) and abs(value) < 1e5 else None


def given(value: float, significant: int = 10) -> Markup:
    """A number that someone gave, such as a bound: without zeros at its end."""
    if not isfinite(value) or _power(abs(value)):
        return plain(value, min(significant, 6))
    return joined(f"{value:.{significant}g}".replace("-", MINUS))


def in_power(value: float, sd: float) -> Markup:
    """A number with its standard deviation, to two digits of the latter."""
    digits = Digits.of(value, sd, significant=2) if sd > 0 else Digits.of(value, abs(value), 6)
    digits = Digits(digits.power, min(digits.decimals, 4))
    number = f"{digits.write(value)}\u00a0±\u00a0{digits.write(sd)}"
    return joined(number) if digits.power == 0 else joined(f"({number})\u00a0", digits.unit)


def small(value: float) -> Markup:
    """An error, of which nobody needs to know how much smaller than a thousandth it is."""
    return joined("below 0.001") if 0 <= value < 0.001 else plain(value, 2)


def interval(low: float, high: float) -> Markup:
    """Two numbers that someone chose."""
    return joined(given(low), " to ", given(high))


def signed(value: float) -> str:
    """A correlation."""
    return f"{value:+.2f}".replace("-", MINUS).replace("+0.00", "0.00").replace(f"{MINUS}0.00", "0.00")


def share(value: float) -> str:
    """A share in per cent; a small one is not rounded to nothing."""
    if not isfinite(value):
        return "not known"
    per_cent = 100 * value
    if 0 < per_cent < 0.01:
        return "below 0.01\u00a0%"
    if 99.9 < per_cent < 100:
        return "above 99.9\u00a0%"
    decimals = 0 if per_cent >= 10 or per_cent == 0 else 1 if per_cent >= 1 else 2
    return f"{per_cent:.{decimals}f}\u00a0%"


def count(number: int) -> str:
    """A whole number with thin spaces between thousands."""
    return f"{number:,}".replace(",", "\u202f") if abs(number) >= 10_000 else in_minus(number)


def seconds(duration: float) -> str:
    """A duration."""
    if duration < 0.1:
        return "below 0.1 s"
    if duration < 100:
        return f"{duration:.1f} s"
    return f"{duration / 60:.1f} min" if duration < 6000 else f"{duration / 3600:.1f} h"


def ticks(low: float, high: float, most: int) -> list[float]:
    """At most so many round numbers inside an interval, two at least where floating point allows."""
    rough = (high - low) / most
    if not (isfinite(rough) and rough > 0):
        return []
    size = 10.0 ** floor(log10(rough))
    step = next(factor * size for factor in STEPS if factor * size >= rough * (1 - 1e-9))
    first = -floor(-(low / step) + 1e-9)
    return [k * step for k in range(first, first + most + 1) if low <= k * step <= high]
