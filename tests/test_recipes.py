"""Every recipe, run against the real library: three lines from a finished optimisation to the right posterior.

The recipes all fit the same straight line with known noise and a flat prior, whose posterior is normal and whose
evidence has a closed form.
"""

from __future__ import annotations

import importlib.util
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vsbq
from test_docs import DOCS, Block, blocks_of, run

RECIPES = sorted(path.stem for path in (DOCS / "recipes").glob("*.md") if path.stem != "index")

#: Libraries that a recipe needs, by the names they are imported under.
NEEDS = {
    "pycma": ["cma"],
    "pybads": ["pybads"],
    "pyvbmc": ["pyvbmc"],
    "optuna": ["optuna"],
    "nevergrad": ["nevergrad"],
    "bayes_opt": ["bayes_opt"],
    "skopt": ["skopt"],
    "emcee": ["emcee"],
    "dynesty": ["dynesty"],
    "tables": ["pandas", "pyarrow"],
    "lmfit": ["lmfit"],
    "iminuit": ["iminuit"],
    "pints": ["pints"],
    "pypesto": ["pypesto"],
    "cobaya": ["cobaya"],
    "ax": ["ax"],  # brings torch, so it is not in the test group: make test-ax
}
FEW = {"ax", "bayes_opt", "skopt"}  # so few evaluations that nothing can be held out; the pages say so
SLOW = {"ax", "pyvbmc", "bayes_opt", "skopt"}  # their optimisers, not the fits

COUNTS = {"pycma": 2, "processes": 2, "tables": 4, "scipy_global": 2, "cobaya": 2}  # posteriors, if not one

#: What a recipe's posterior may be off by: its mean in standard deviations, these by a share, the evidence in nats.
MEAN, SPREAD, EVIDENCE = 0.1, 0.05, 0.05


@dataclass(frozen=True)
class Line:
    """The exact posterior of the straight line."""

    mean: np.ndarray
    cov: np.ndarray
    log_evidence: float

    @classmethod
    def exact(cls) -> Line:
        """Normal, as the box is far wider than the posterior."""
        hours = np.linspace(0, 4, 20)
        growth = 1.0 + 0.5 * hours + 0.4 * np.random.default_rng(1).standard_normal(20)
        columns = np.column_stack([np.ones(20), hours])
        cov = np.linalg.inv(columns.T @ columns / 0.4**2)
        mean = cov @ columns.T @ growth / 0.4**2
        z = (growth - columns @ mean) / 0.4
        top = -0.5 * z @ z - 20 * np.log(0.4 * np.sqrt(2 * np.pi)) - np.log(6 * 4)
        return cls(mean, cov, float(top + 0.5 * np.linalg.slogdet(2 * np.pi * cov)[1]))


def complaints(post: vsbq.Posterior, truth: Line) -> list[str]:
    """What is wrong with a posterior."""
    sd = np.sqrt(np.diagonal(truth.cov))
    off = np.abs(post.mean() - truth.mean) / sd
    wide = np.abs(np.sqrt(np.diagonal(post.cov())) / sd - 1)
    turn = abs(post.cov()[0, 1] / np.prod(np.sqrt(np.diagonal(post.cov()))) - truth.cov[0, 1] / np.prod(sd))
    evidence = abs(post.log_evidence - truth.log_evidence)
    found = {
        "mean": off.max() / MEAN,
        "sd": wide.max() / SPREAD,
        "correlation": turn / SPREAD,
        "evidence": evidence / EVIDENCE,
    }
    return [f"{name}: {share:.2f} of what is allowed" for name, share in found.items() if share > 1]


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in RECIPES])
def test_a_recipe_gives_the_right_posterior(name, tmp_path, monkeypatch):
    for library in NEEDS.get(name, []):
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"{library} is not installed")
    monkeypatch.chdir(tmp_path)
    truth, posteriors = Line.exact(), []

    def check(block: Block, names: dict[str, Any]) -> None:
        if block.three_lines:
            posteriors.append(names.pop("post"))
            assert complaints(posteriors[-1], truth) == []

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other people's libraries warn
        if name not in FEW:
            warnings.simplefilter("error", vsbq.VsbqWarning)
        run(DOCS / f"recipes/{name}.md", check)
    assert ('"doubtful"' in (DOCS / f"recipes/{name}.md").read_text("utf-8")) == (name in FEW)
    assert {post.verdict for post in posteriors} == ({"doubtful"} if name in FEW else {"trusted"})
    assert len(posteriors) == COUNTS.get(name, 1)


@pytest.mark.parametrize("name", RECIPES)
def test_three_lines_are_enough(name):
    marked = [
        block.source for block in blocks_of((DOCS / f"recipes/{name}.md").read_text("utf-8")) if block.three_lines
    ]
    assert marked
    for source in marked:
        lines = [line for line in source.splitlines() if line.strip()]
        assert len(lines) <= 3
        assert all(len(line) <= 120 for line in lines)
        assert sum("vsbq.fit(" in line for line in lines) == 1


def test_the_index_has_every_recipe():
    index = Path(DOCS / "recipes/index.md").read_text(encoding="utf-8")
    assert [name for name in RECIPES if f"]({name}.md)" not in index or f"\n{name}\n" not in index] == []


def test_a_wrong_posterior_is_found():
    truth = Line.exact()
    rng = np.random.default_rng(0)
    points = rng.multivariate_normal(truth.mean, 4 * truth.cov, 200)
    offsets = points - truth.mean
    log_density = -0.5 * np.einsum("ni,ij,nj->n", offsets, np.linalg.inv(truth.cov), offsets)
    log_density += truth.log_evidence - 0.5 * np.linalg.slogdet(2 * np.pi * truth.cov)[1]
    post = vsbq.fit(points, log_density, rng=1)
    assert complaints(post, truth) == []
    for wrong, word in (
        (Line(truth.mean + 0.2 * np.sqrt(np.diagonal(truth.cov)), truth.cov, truth.log_evidence), "mean"),
        (Line(truth.mean, 1.2 * truth.cov, truth.log_evidence), "sd"),
        (Line(truth.mean, np.diag(np.diagonal(truth.cov)), truth.log_evidence), "correlation"),
        (Line(truth.mean, truth.cov, truth.log_evidence + 0.1), "evidence"),
    ):
        assert [text.split(":")[0] for text in complaints(post, wrong)] == [word]
