"""The pictures of docs/did_it_work.md: a healthy fit and two sick ones.

python examples/did_it_work.py --out docs/did_it_work
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np

import vsbq


def log_density(x):
    """A normal whose right side is two and a half times as wide as its left."""
    z = x[:, 0] / np.where(x[:, 0] > 0, 2.5, 1.0)
    return -0.5 * z**2 - 0.5 * (x[:, 1] - 0.5 * x[:, 0]) ** 2 - np.log(2 * np.pi * 1.75)


def cloud(n, rng):
    x = rng.normal(size=(n, 2)) * rng.uniform(0, 3, (n, 1))
    x[:, 0] *= np.where(x[:, 0] > 0, 2.5, 1.0)
    x[:, 1] += 0.5 * x[:, 0]
    return x


def traces(rng):
    """All around, on the left only, and few that are spread far and wide."""
    healthy, left, few = cloud(500, rng), cloud(400, rng), rng.uniform(-8, 8, (22, 2))
    return {"healthy": healthy, "one_side": left[left[:, 0] < -0.3], "few": few}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path())
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    for name, x in traces(np.random.default_rng(3)).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", vsbq.VsbqWarning)
            post = vsbq.fit(x, log_density(x), names=["a", "b"], rng=1, progress=False)
        post.plot_diagnosis().savefig(folder / f"{name}.png", dpi=90)
        print(name, post.verdict, [finding.name for finding in post.diagnose().reasons])
    print("exact log evidences: 0")


if __name__ == "__main__":
    main()
