"""The results page: prose by hand, and between markers the tables and figures made from the lines.

A block starts with `<!-- begin: NAME -->` and ends with `<!-- end: NAME -->`, each alone on its line. Names are those
of `TABLES` after "table-" and those of `PICTURES` after "figure-". What is outside the blocks is left alone. The cases
of the zoo have tables and pictures of their own, made from their lines only; all others are made without these.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vsbq.errors import VsbqError
from vsbq.fit import fit
from vsbq_bench import figures
from vsbq_bench.ablation import ablation
from vsbq_bench.article import ARTICLE, ARTICLE_CASES
from vsbq_bench.calibration_table import calibration
from vsbq_bench.cases.before_now import by_kind, summary
from vsbq_bench.cases.picture import calibration_picture
from vsbq_bench.cases.variants import ablation_of_cases, control
from vsbq_bench.lines import Line
from vsbq_bench.oracle_table import noisy_cases, problems_by_noise
from vsbq_bench.overview import OVERVIEWS
from vsbq_bench.problems import Problem, rosenbrock_gaussian, two_moons
from vsbq_bench.stored import of_cases, of_problems
from vsbq_bench.tables import NOT_RUN
from vsbq_bench.tables import TABLES as DETAILED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CASE_PICTURES", "CASE_TABLES", "PICTURES", "Picture", "figures_of", "refresh", "write_figures"]

FOLDER = "results"  # where the pictures are, seen from the page
COLOURS = 128
MARKER = re.compile(r"^<!-- *(begin|end): *(\S+) *-->\s*$")


class Picture(NamedTuple):
    """How a figure is drawn from the lines, and what it shows, for those who cannot see it.

    A live one fits on the spot and needs no lines.
    """

    draw: Callable[[Sequence[Line]], Figure | None]
    alt: str
    live: bool = False


def _fresh_fit(lines: Sequence[Line], make: Callable[[], Problem]) -> Figure:
    """Draw a fit to a new trace of CMA-ES against the truth."""
    from vsbq_bench.traces import cma_trace

    problem, rng = make(), np.random.default_rng(0)
    trace = cma_trace(problem, rng)
    post = fit(trace.points, trace.log_density, bounds=problem.bounds, rng=rng, progress=False)
    return figures.posterior_against_truth(problem, post.sample(20_000, rng), trace.points)


_PANELS = "Medians with shaded 95 % intervals; dash-dotted lines are the thresholds 1, 0.2 and 1/8."

CASE_TABLES: Mapping[str, Callable[[Sequence[Line]], str]] = MappingProxyType(
    {
        "zoo-development": partial(by_kind, half="development"),
        "zoo-validation": partial(by_kind, half="validation"),
        "zoo-summary": summary,
        "zoo-control": control,
        "zoo-ablation": ablation_of_cases,
        "zoo-oracle": noisy_cases,
    }
)

TABLES = MappingProxyType(
    {
        **DETAILED,
        **OVERVIEWS,
        **ARTICLE,
        "ablation": ablation,
        "calibration": calibration,
        "oracle": problems_by_noise,
    }
)

PICTURES: Mapping[str, Picture] = MappingProxyType(
    {
        "timing": Picture(
            partial(figures.by_noise, problem="timing"),
            f"ΔLML, MMTV and GsKL of each method on the timing model, against the noise of the evaluations. {_PANELS}",
        ),
        "multisensory": Picture(
            partial(figures.by_noise, problem="multisensory"),
            "ΔLML, MMTV and GsKL of each method on multisensory causal inference, against the noise of the "
            f"evaluations. {_PANELS}",
        ),
        "sensitivity": Picture(
            figures.sensitivity,
            f"ΔLML, MMTV and GsKL against the number of evaluations, a row for each problem. {_PANELS}",
        ),
        "optimisers": Picture(
            figures.optimisers,
            "ΔLML, MMTV and GsKL of VSBQ on traces of CMA-ES (circles) and of BADS (squares), with 95 % intervals, "
            "a row for each problem.",
        ),
        "runtime": Picture(
            figures.runtime, "Seconds spent on trimming, the surrogate and the mixture, a bar for each problem."
        ),
        "noise-shaping": Picture(
            lambda lines: figures.noise_shaping(),
            "A density with two bumps, its log density and a sparse Gaussian process with ten inducing points. "
            "Without noise shaping the inducing points are spread evenly and the posterior is wrong; with it they "
            "gather where the density is high and the posterior is close to the truth.",
            live=True,
        ),
        "posterior-two-moons": Picture(
            partial(_fresh_fit, make=two_moons),
            "Marginals and contours of the Two Moons posterior, fitted and exact, over the optimiser's evaluations.",
            live=True,
        ),
        "posterior-rosenbrock": Picture(
            partial(_fresh_fit, make=rosenbrock_gaussian),
            "Marginals and contours of the six-dimensional Rosenbrock–Gaussian posterior, fitted and exact, over the "
            "optimiser's evaluations.",
            live=True,
        ),
    }
)

CASE_PICTURES: Mapping[str, Picture] = MappingProxyType(
    {
        "zoo-calibration": Picture(
            calibration_picture,
            "The size of the error of the log evidence against its stated standard deviation, a point for each run of "
            "the validation half: on the left the first version, on the right the one of now. Points above the shaded "
            "band are more than two stated standard deviations off.",
        ),
    }
)


def refresh(text: str, lines: Sequence[Line]) -> str:
    """Return the page with the content of every block made anew from the lines."""
    out: list[str] = []
    opened: str | None = None
    for number, row in enumerate(text.splitlines(), 1):
        marker = MARKER.match(row)
        if marker is None:
            if opened is None:
                out.append(row)
            continue
        kind, name = marker.groups()
        if kind == "begin" and opened is None:
            out += [row, "", _content(name, number, lines), ""]
            opened = name
        elif kind == "end" and name == opened:
            out.append(row)
            opened = None
        else:
            raise VsbqError(f"Line {number} of the page: {row.strip()} {_trouble(kind, opened)}.")
    if opened is not None:
        raise VsbqError(f"The block {opened!r} of the page is not closed; add <!-- end: {opened} -->.")
    return "\n".join(out) + "\n"


def _trouble(kind: str, opened: str | None) -> str:
    return "ends a block that was not begun" if opened is None else f"is inside the block {opened!r}"


def figures_of(text: str) -> list[str]:
    """Return the names of the figures that a page has blocks for."""
    names = [
        marker.group(2) for marker in map(MARKER.match, text.splitlines()) if marker and marker.group(1) == "begin"
    ]
    return [name.removeprefix("figure-") for name in names if name.startswith("figure-")]


def _content(name: str, number: int, lines: Sequence[Line]) -> str:
    kind, _, key = name.partition("-")
    tables, pictures = {**TABLES, **CASE_TABLES, **ARTICLE_CASES}, {**PICTURES, **CASE_PICTURES}
    if kind == "table" and key in tables:
        return tables[key](_own_lines(key, lines))
    if kind == "figure" and key in pictures:
        picture = pictures[key]
        shown = picture.live or picture.draw(_own_lines(key, lines)) is not None
        return f"![{picture.alt}]({FOLDER}/{key}.png)" if shown else NOT_RUN
    known = [f"table-{key}" for key in tables] + [f"figure-{key}" for key in pictures]
    raise VsbqError(f"Line {number} of the page: there is no block {name!r}; there are {', '.join(known)}.")


def _own_lines(key: str, lines: Sequence[Line]) -> list[Line]:
    from_cases = any(key in known for known in (CASE_TABLES, ARTICLE_CASES, CASE_PICTURES))
    return of_cases(lines) if from_cases else of_problems(lines)


def write_figures(
    lines: Sequence[Line], folder: Path, *, live: bool = True, only: Collection[str] | None = None
) -> list[Path]:
    """Draw every figure that the lines allow, the live ones unless told not to; return the files.

    `only` are the names of those that are wanted, None for all.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, picture in {**PICTURES, **CASE_PICTURES}.items():
        wanted = (only is None or name in only) and (live or not picture.live)
        figure = picture.draw(_own_lines(name, lines)) if wanted else None
        if figure is not None:
            written.append(folder / f"{name}.png")
            _save(figure, written[-1])
    return written


def _save(figure: Figure, path: Path) -> None:
    """Save with a palette, which makes the file several times smaller, and without the date or a version."""
    from PIL import Image

    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=figures.DPI, metadata={"Software": None})
    with Image.open(buffer) as image:
        image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
