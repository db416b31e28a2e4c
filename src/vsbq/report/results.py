"""The posterior: a table of numbers, the corner plot, marginals, correlations, and separate regions if any."""

from __future__ import annotations

import numpy as np

from vsbq.markup import Markup, element, joined, paragraph, readable, table
from vsbq.posterior import Posterior
from vsbq.report.curves import marginal_curve
from vsbq.report.digits import Digits, share, signed
from vsbq.report.numbers import Numbers
from vsbq.report.pictures import Picture, enlargeable

__all__ = ["the_posterior"]

PANEL = 90  # pixels that a panel of the corner plot needs to be read; below that it scrolls
WIDEST = {1: "26rem", 2: "36rem"}  # of the corner plot, by the number of parameters
FEW = 4  # parameters, up to which columns of correlations carry names
MOST_MODES = 5  # in the table
MOST_BESIDE = 6  # parameters, up to which the corner plot has room beside the table
MANY = 12  # parameters, above which the alternative text does not name them all


def the_posterior(posterior: Posterior, numbers: Numbers, corner: Picture) -> Markup:
    """The section on the result; the table and the corner plot come first."""
    wide = " wide" if posterior.dimension > MOST_BESIDE else ""
    return element(
        "section",
        element("h2", "The parameters"),
        *_reweighted(posterior),
        element(
            "div",
            element("div", _summary(posterior, numbers)),
            _corner(posterior, numbers, corner),
            class_=f"first{wide}",
        ),
        element("h3", "Each parameter by itself"),
        _marginals(posterior, numbers),
        _quantiles(posterior, numbers),
        *_correlations(posterior, numbers),
        *_modes(posterior, numbers),
        id="posterior",
    )


def _reweighted(posterior: Posterior) -> list[Markup]:
    if posterior.prior_change is None:
        return []
    words = (
        "This posterior was turned to another prior by new weights, without a new fit. The log densities hold the new "
        "prior; the sections on the checks and the fit are about the fit that it came from."
    )
    return [paragraph(element("strong", "Another prior. "), words, class_="note")]


def _row_name(posterior: Posterior, i: int, digits: Digits | None = None) -> Markup:
    name = element("bdi", readable(posterior.names[i]))
    return name if digits is None or digits.power == 0 else joined(name, " ", element("small", digits.unit))


def _summary(posterior: Posterior, numbers: Numbers) -> Markup:
    head = ["parameter", "mean", "sd", "5 %", "median", "95 %"]
    rows = []
    for i in range(posterior.dimension):
        digits = numbers.digits(i)
        values = [numbers.mean[i], numbers.sd[i], *numbers.quantiles[[0, 2, 4], i]]
        rows.append([_row_name(posterior, i, digits), *(digits.write(float(value)) for value in values)])
    note = (
        "The posterior is the probability of the parameters' values given the data and the prior. With 90 % "
        "probability a parameter lies between its columns 5 % and 95 %; sd is its standard deviation."
    )
    return joined(table(head, rows, label="Summary of the posterior"), paragraph(note, class_="caption"))


def _quantiles(posterior: Posterior, numbers: Numbers) -> Markup:
    head = ["parameter", "5 %", "25 %", "median", "75 %", "95 %", "best evaluated"]
    rows = []
    for i in range(posterior.dimension):
        digits = numbers.digits(i)
        best = "not here" if numbers.best is None else digits.write(float(numbers.best[i]))
        values = (digits.write(float(value)) for value in numbers.quantiles[:, i])
        rows.append([_row_name(posterior, i, digits), *values, best])
    noisy = posterior.evaluations is not None and posterior.evaluations.log_density_sd is not None
    luck = " With noisy values, the highest one is partly luck." if noisy else ""
    note = (
        "Below the column 25 % lies a quarter of the probability, and so on. Best evaluated: the evaluation with the "
        "highest log density. It is one point, not a summary of the posterior, and need not be at its mean or "
        f"median.{luck}"
    )
    return joined(table(head, rows, label="Quantiles of the posterior"), paragraph(note, class_="caption"))


def _corner(posterior: Posterior, numbers: Numbers, corner: Picture) -> Markup:
    if corner.missing:
        return paragraph(corner.missing, class_="absent")
    d = posterior.dimension
    dots = (
        "Dots are evaluations, the darker the higher their log density. They should lie where the probability is, and "
        "around it: where there are no dots, the posterior is guesswork."
        if posterior.evaluations is not None
        else "The evaluations are not in this file and so not in the figure."
    )
    shown = (
        "On the diagonal, the density of each parameter with its median and central 90 % interval; below it, each pair "
        "of parameters with the regions that hold 50 % and 90 % of the probability."
        if d > 1
        else "The density with its median and central 90 % interval."
    )
    words = _corner_in_words(posterior, numbers)
    style = f"--widest:{WIDEST[d]}" if d in WIDEST else f"min-width:{PANEL * d}px" if d > 3 else None
    return enlargeable(corner, "corner", alt=words, caption=f"{shown} {dots}", style=style)


def _corner_in_words(posterior: Posterior, numbers: Numbers) -> str:
    names = ", ".join(readable(name) for name in posterior.names[:MANY])
    more = f" and {posterior.dimension - MANY} more" if posterior.dimension > MANY else ""
    words = f"{'Corner plot' if posterior.dimension > 1 else 'Density'} of the posterior of {names}{more}."
    strongest = numbers.strongest()
    if strongest is not None:
        i, j, r = strongest
        one, other = readable(posterior.names[i]), readable(posterior.names[j])
        words += f" The strongest correlation, {signed(r)}, is between {one} and {other}."
    if len(numbers.modes) > 1:
        words += f" There are {len(numbers.modes)} separate regions of high probability."
    return words + " The numbers are in the tables of this section."


def _marginals(posterior: Posterior, numbers: Numbers) -> Markup:
    seen, support = posterior.evaluations, numbers.support
    figures = []
    for i, marginal in enumerate(numbers.marginals):
        best = None if numbers.best is None else float(numbers.best[i])
        rug = None if seen is None or support is None else seen.points[support.inside, i]
        curve = marginal_curve(marginal, numbers.quantiles[[0, 2, 4], i], best, rug)
        figures.append(element("figure", element("figcaption", _marginal_title(posterior, numbers, i)), curve))
    key = "The curve is the density, the shaded part holds 90 %, the line is the median."
    if seen is not None:
        key += " The diamond is the best evaluation; ticks are evaluations under the posterior (300 of them at most)."
    return joined(paragraph(key), element("div", *figures, class_="marginals"))


def _marginal_title(posterior: Posterior, numbers: Numbers, i: int) -> Markup:
    digits = numbers.digits(i)
    low, middle, high = (digits.write(float(value)) for value in numbers.quantiles[[0, 2, 4], i])
    words = joined(f"{middle} ({low} to {high}) ", digits.unit)
    return joined(element("strong", _row_name(posterior, i)), " ", element("span", words))


def _correlations(posterior: Posterior, numbers: Numbers) -> list[Markup]:
    d = posterior.dimension
    if d < 2:
        return []
    names = [_row_name(posterior, i) for i in range(d)]
    head = ["", *(names[: d - 1] if d <= FEW else [str(j + 1) for j in range(d - 1)])]
    rows = [
        [
            names[i] if d <= FEW else joined(f"{i + 1}. ", names[i]),
            *(_tinted(float(numbers.correlation[i, j])) for j in range(i)),
            *[""] * (d - 1 - i),
        ]
        for i in range(1, d)
    ]
    note = "Near +1 or −1, two parameters can hardly be told apart; near 0, they are known independently of each other."
    note += "" if d <= FEW else f" Column 1 is {readable(posterior.names[0])}; the others are numbered like their rows."
    grid = table(head, rows, label="Correlations", class_="numbers matrix crowded" if d > MANY else "numbers matrix")
    return [element("h3", "Correlations"), paragraph(note), grid]


def _tinted(r: float) -> Markup:
    tint = f"--tint:{30 * abs(r):.0f}%" if np.isfinite(r) else None
    return element("td", signed(r), class_="plus" if r > 0 else "minus", style=tint)


def _modes(posterior: Posterior, numbers: Numbers) -> list[Markup]:
    modes = numbers.modes[:MOST_MODES]
    if len(modes) < 2:
        return []
    more = len(numbers.modes) - len(modes)
    rest = f" {more} smaller ones are left out." if more else ""
    head = ["parameter", *(f"region {k + 1}: {share(mode.share)}" for k, mode in enumerate(modes))]
    rows = []
    for i in range(posterior.dimension):
        digits = Digits.of(float(max(abs(m.mean[i]) for m in modes)), float(min(m.sd[i] for m in modes)), 2)
        values = [f"{digits.write(float(m.mean[i]))} ± {digits.write(float(m.sd[i]))}" for m in modes]
        rows.append([_row_name(posterior, i, digits), *values])
    note = (
        f"The posterior has {len(numbers.modes)} regions of high probability with valleys between them. A mean over "
        "all of them may be where nothing is; here is the share of each, with mean ± standard deviation inside. The "
        f"fewer evaluations there are in and between the regions, the less certain are the shares.{rest}"
    )
    return [element("h3", "Separate regions"), paragraph(note), table(head, rows, label="Separate regions")]
