"""A dozen small fits whose results are kept: a change of the shape of the code must not change them.

`python tests/golden.py` writes the file anew, after a change that is meant to change results.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy

import vsbq

FILE = Path(__file__).with_name("golden.json")


def _cloud(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return 1.5 * rng.standard_normal((n, d))


def normal() -> vsbq.Posterior:
    x = _cloud(np.random.default_rng(1), 60, 1)
    return vsbq.fit(x, -0.5 * (x**2).sum(axis=1), rng=1)


def banana() -> vsbq.Posterior:
    x = _cloud(np.random.default_rng(2), 200, 2)
    x[:, 1] += 0.5 * (x[:, 0] ** 2 - 1)
    return vsbq.fit(x, -0.5 * (x[:, 0] ** 2 + (x[:, 1] - 0.5 * (x[:, 0] ** 2 - 1)) ** 2), rng=2)


def correlated() -> vsbq.Posterior:
    rng = np.random.default_rng(3)
    root = np.tril(rng.standard_normal((4, 4))) + 2 * np.eye(4)
    z = _cloud(rng, 250, 4)
    return vsbq.fit(z @ root.T, -0.5 * (z**2).sum(axis=1), rng=3)


def noisy() -> vsbq.Posterior:
    rng = np.random.default_rng(4)
    x = _cloud(rng, 250, 2)
    sd = rng.uniform(0.2, 1.0, 250)
    return vsbq.fit(x, -0.5 * (x**2).sum(axis=1) + sd * rng.standard_normal(250), log_density_sd=sd, rng=4)


def unknown_noise() -> vsbq.Posterior:
    rng = np.random.default_rng(5)
    x = _cloud(rng, 250, 2)
    return vsbq.fit(x, -0.5 * (x**2).sum(axis=1) + rng.standard_normal(250), rng=5)


def bounded() -> vsbq.Posterior:
    x = np.random.default_rng(6).beta(2.0, 2.0, (200, 3))
    x[:, 2] /= 1 - x[:, 2]
    values = np.log(x[:, 0]) + np.log1p(-x[:, 1]) - x[:, 2]
    return vsbq.fit(x, values, bounds=[(0, 1), (0, 1), (0, None)], rng=6)


def zeros() -> vsbq.Posterior:
    x = _cloud(np.random.default_rng(7), 150, 2)
    return vsbq.fit(x, np.where(x.sum(axis=1) > 1, -np.inf, -0.5 * (x**2).sum(axis=1)), rng=7)


def cliff() -> vsbq.Posterior:
    x = _cloud(np.random.default_rng(8), 200, 2)
    return vsbq.fit(x, -0.5 * (x**2).sum(axis=1) - 500.0 * (x[:, 0] > 0.7), rng=8)


def two_modes() -> vsbq.Posterior:
    rng = np.random.default_rng(9)
    x = _cloud(rng, 300, 2) * 0.4 + 2.0 * rng.choice([-1, 1], (300, 1))
    return vsbq.fit(x, np.logaddexp(-4 * ((x - 2) ** 2).sum(axis=1), -4 * ((x + 2) ** 2).sum(axis=1)), rng=9)


def repeated() -> vsbq.Posterior:
    rng = np.random.default_rng(10)
    x = np.repeat(_cloud(rng, 60, 2), 4, axis=0)
    return vsbq.fit(x, -0.5 * (x**2).sum(axis=1) + 0.5 * rng.standard_normal(240), log_density_sd=0.5, rng=10)


def updated() -> vsbq.Posterior:
    x = _cloud(np.random.default_rng(11), 40, 2)
    first = vsbq.fit(x, -0.5 * (x**2).sum(axis=1), rng=11)
    more = first.suggest(5, rng=12)
    return first.update(more, -0.5 * (more**2).sum(axis=1), rng=13)


def as_published() -> vsbq.Posterior:
    x = _cloud(np.random.default_rng(12), 120, 2)
    return vsbq.fit(x, -0.5 * (x**2).sum(axis=1), settings=vsbq.Settings.paper(), rng=14)


FITS: dict[str, Callable[[], vsbq.Posterior]] = {
    fit.__name__: fit
    for fit in (
        normal,
        banana,
        correlated,
        noisy,
        unknown_noise,
        bounded,
        zeros,
        cliff,
        two_modes,
        repeated,
        updated,
        as_published,
    )
}


def results(post: vsbq.Posterior) -> dict[str, Any]:
    """What is kept of a posterior."""
    summary = post.summary()
    x = post.sample(5, rng=0)
    return {
        "evidence": [post.log_evidence, post.log_evidence_sd, post.elbo, post.elbo_sd],
        "mean": list(map(float, summary.mean)),
        "sd": list(map(float, summary.sd)),
        "draws": x.tolist(),
        "log_pdf": post.log_pdf(x).tolist(),
        "predicted": np.concatenate(post.surrogate.predict(x)).tolist(),
    }


def machine() -> dict[str, str]:
    """What the last digits depend on: the libraries, the processor and the threads of the BLAS."""
    threads = os.environ.get("OPENBLAS_NUM_THREADS", "")
    return {"numpy": np.__version__, "scipy": scipy.__version__, "processor": _processor(), "threads": threads}


def _processor() -> str:
    """A hash of all that the system tells of the processor, as far as it does not change with time."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    telling = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags")
    words = sorted({line for line in lines if line.split(":")[0].strip() in telling})
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]


def fitted(name: str) -> dict[str, Any]:
    """The results of one of the fits."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vsbq.errors.VsbqWarning)
        return results(FITS[name]())


if __name__ == "__main__":
    FILE.write_text(json.dumps({"machine": machine(), "fits": {name: fitted(name) for name in FITS}}, indent=1) + "\n")
