"""The true posteriors of the cases from science: make, inspect.

    python benchmarks/make_case_truths.py                # all that are missing, or whose log density has changed
    python benchmarks/make_case_truths.py wald ar2       # these
    python benchmarks/make_case_truths.py --again wald   # though it is there
    python benchmarks/make_case_truths.py --show         # what is stored, with its checks

Everything happens with standard normal numbers in place of the parameters (see vsbq_bench.cases.science.model): there
are no bounds, and no tail is heavier than Gaussian. Tempered particles from the prior find the modes, a mixture of
Gaussians fitted to them is the proposal of importance weights, and a second way to the evidence checks these: an
integral or a grid where there is one, else another proposal from other particles. Chains check the moments.
"""

import argparse
import time
from dataclasses import dataclass
from math import log, pi
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from vsbq.numerics.em import effective_size
from vsbq.numerics.mixture import Mixture
from vsbq.numerics.pareto import smoothed_weights
from vsbq_bench.cases.science import MODELS
from vsbq_bench.cases.science.checks import Checks, checks_of
from vsbq_bench.cases.science.model import Model, truth_name
from vsbq_bench.reference_sampler import (
    Weighted,
    differences,
    fit_proposal,
    importance_sample,
    refined,
    resample,
    run_chains,
    unbounded_space,
)
from vsbq_bench.truth import CHECK_POINTS, Truth, read_truth, write_truth

TRUTHS = Path(__file__).parent / "vsbq_bench" / "truths"
SAME_AS = {"centred_schools": "eight_schools"}  # another view of the same posterior; nothing is stored
PRIOR_SHARE = 0.02  # of proposals, from the prior itself: no weight exceeds 50 likelihoods over the evidence
BROAD_SHARE = 0.2  # of proposals, from a mixture fitted to a flatter posterior, which knows where the tails lead
BROAD_POWER = 0.5  # of the likelihood in that one
MORE = {  # many modes; tails that are confined in other directions than the bulk is
    "damped_oscillator": {"components": 90},
    "dead_time": {"components": 80, "pilot": 100_000},
    "eight_schools": {"components": 80, "pilot": 100_000},
    "volatility": {"pilot": 100_000},
}
CELLS = {1: 200_000, 2: 2000, 3: 150}  # of a grid, by side
WIDER = 1.6  # a grid's side relative to the range of the draws


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How long to run."""

    particles: int = 3000
    moves: int = 8
    components: int = 32
    pilot: int = 40_000
    rounds: int = 4
    proposals: int = 300_000
    walkers: int = 200
    steps: int = 2000
    draws: int = 20_000


class Tempered(NamedTuple):
    """Particles of the posterior, and the evidence met on the way to it."""

    particles: np.ndarray
    log_evidence: float


@dataclass(frozen=True)
class Target:
    """The posterior of standard normal numbers, at a power of the likelihood."""

    model: Model
    power: float = 1.0

    @property
    def dimension(self):
        """Return the number of parameters."""
        return len(self.model.names)

    def likelihood(self, z):
        """Return the log likelihood of the parameters that z leads to."""
        return self.model.guarded_likelihood(self.model.parameters(z))

    def __call__(self, z):
        """Return the log density."""
        return self.power * self.likelihood(z) - 0.5 * (z**2).sum(axis=1) - 0.5 * self.dimension * log(2 * pi)


def temper(model, effort, rng):
    """Bring draws of the prior to the posterior by rising powers of the likelihood; each step halves the effective."""
    z = rng.standard_normal((effort.particles, len(model.names)))
    power, log_evidence = 0.0, 0.0
    while power < 1:
        logs = Target(model).likelihood(z)
        rise = next_rise(logs, 1 - power)
        log_evidence += float(logsumexp(rise * logs)) - log(len(z))
        power = min(power + rise, 1.0)
        z = resample(Weighted(z, rise * logs), len(z), rng)
        z = run_chains(Target(model, power), z, effort.moves, rng).positions[-1]
    return Tempered(z, log_evidence)


def next_rise(logs, most):
    """The largest rise of the power that leaves half of the particles effective."""
    logs = logs - logs.max()
    if effective_size(np.exp(most * logs)) > len(logs) / 2:
        return most
    low, high = 0.0, most
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if effective_size(np.exp(middle * logs)) > len(logs) / 2 else (low, middle)
    return high


def propose(model, particles, components, effort, rng):
    """A mixture fitted to particles, then to weighted draws of its own, and defended by one of a flatter posterior."""
    narrow = fit_proposal(particles, components, rng)
    narrow = adapted(Target(model), narrow, effort, rng)
    broad = adapted(Target(model, BROAD_POWER), narrow, effort, rng)
    for _ in range(effort.rounds):
        pilot = importance_sample(Target(model), plain_space(model), defended(narrow, broad), effort.pilot, rng)
        narrow = refined(narrow, pilot)
    return defended(narrow, broad)


def adapted(target, mixture, effort, rng):
    """Fit a mixture to weighted draws of its own, in several rounds."""
    for _ in range(effort.rounds):
        pilot = importance_sample(target, plain_space(target.model), defended(mixture, mixture), effort.pilot, rng)
        mixture = refined(mixture, pilot)
    return mixture


def plain_space(model):
    """No transform at all."""
    return unbounded_space(None, np.tile([-1.0, 1.0], (len(model.names), 1)))


def defended(narrow, broad):
    """Mix in a broad mixture and the prior, which is standard normal: both keep weights in the tails small."""
    d = narrow.means.shape[1]
    shares = np.log([1 - BROAD_SHARE - PRIOR_SHARE, BROAD_SHARE, PRIOR_SHARE])
    return Mixture(
        np.concatenate([narrow.log_weights + shares[0], broad.log_weights + shares[1], shares[2:]]),
        np.vstack([narrow.means, broad.means, np.zeros(d)]),
        np.concatenate([narrow.trils, broad.trils, np.eye(d)[None]]),
    )


def weigh(model, components, effort, rng):
    """Importance weights by way of particles; also the evidence that tempering these gave."""
    tempered = temper(model, effort, rng)
    proposal = propose(model, tempered.particles, components, effort, rng)
    weighted = importance_sample(Target(model), plain_space(model), proposal, effort.proposals, rng)
    return weighted, tempered.log_evidence


class Second(NamedTuple):
    """A second evidence; only weights have a share and a shape."""

    way: str
    log_evidence: float
    sd: float
    share: float | None = None
    shape: float | None = None


def second_way(model, draws, effort, rng):
    """The evidence by an integral, a grid or other weights."""
    if model.log_evidence:
        return Second("integral", model.log_evidence(), 1e-6)
    if len(model.names) in CELLS:
        cells = CELLS[len(model.names)]
        fine, coarse = grid(model, draws, cells), grid(model, draws, 2 * cells // 3)
        return Second("grid", fine, max(abs(fine - coarse), 1e-6))
    weighted, _ = weigh(model, effort.components * 5 // 3, effort, rng)
    return Second(
        "weights",
        weighted.log_evidence,
        weighted.log_evidence_sd,
        weighted.effective_share,
        smoothed_weights(weighted.log_weights).shape,
    )


def grid(model, draws, cells):
    """Midpoint rule over a box well beyond the draws."""
    low, high = draws.min(axis=0), draws.max(axis=0)
    half = WIDER * (high - low) / 2
    side = 2 * half / cells
    axes = [(low + high)[i] / 2 - half[i] + side[i] * (np.arange(cells) + 0.5) for i in range(len(half))]
    rest = np.zeros((1, 0))  # all combinations of the axes but the first
    for axis in axes[1:]:
        rest = np.column_stack([np.repeat(rest, cells, axis=0), np.tile(axis, len(rest))])
    sums = []
    for slab in np.array_split(axes[0], max(1, cells * len(rest) // 200_000)):
        points = np.column_stack([np.repeat(slab, len(rest)), np.tile(rest, (len(slab), 1))])
        sums.append(float(logsumexp(Target(model)(points))))
    return float(logsumexp(sums) + np.log(side).sum())


def solve(model, effort, seed):
    """Draws of the parameters and the checks."""
    rng = np.random.default_rng([seed, *model.name.encode()])
    weighted, tempered = weigh(model, effort.components, effort, rng)
    draws = resample(weighted, effort.draws, rng)
    chains = run_chains(Target(model), resample(weighted, effort.walkers, rng), effort.steps, rng)
    second = second_way(model, draws, effort, rng)
    checks = Checks(
        log_evidence=weighted.log_evidence,
        log_evidence_sd=weighted.log_evidence_sd,
        share=weighted.effective_share,
        shape=smoothed_weights(weighted.log_weights).shape,
        second_way=second.way,
        second_log_evidence=second.log_evidence,
        second_log_evidence_sd=second.sd,
        second_share=second.share,
        second_shape=second.shape,
        tempered_log_evidence=tempered,
        worst_z=float(np.abs(differences(chains, plain_space(model), weighted)).max()),
        distinct=len(np.unique(draws, axis=0)) / len(draws),
        seed=seed,
    )
    return model.parameters(draws), checks


def make(name, effort, seed):
    """Store a truth if its checks hold, and print them."""
    start = time.perf_counter()
    model = MODELS[name]()
    draws, checks = solve(model, effort, seed)
    print(f"{describe(name, checks)}; {time.perf_counter() - start:.0f} s", flush=True)
    if checks.objections():
        print(f"{name}: not written: {'; '.join(checks.objections())}", flush=True)
        return False
    points = draws[:CHECK_POINTS]
    better = checks.second_log_evidence_sd < checks.log_evidence_sd
    truth = Truth(
        draws=draws,
        log_evidence=checks.second_log_evidence if better else checks.log_evidence,
        log_evidence_sd=checks.second_log_evidence_sd if better else checks.log_evidence_sd,
        effective_share=checks.share,
        worst_z=checks.worst_z,
        check_points=points,
        check_values=model.log_density(points),
        data_digest="",
        made=checks.dump(),
    )
    write_truth(path_of(name), truth)
    return True


def path_of(name):
    """Return where the truth is stored."""
    return TRUTHS / f"{truth_name(name)}.npz"


def is_made(name):
    """Whether a truth of this very log density is stored."""
    if not path_of(name).is_file():
        return False
    try:
        read_truth(path_of(name)).check(MODELS[name]().log_density)
    except ValueError as error:
        print(f"{name}: {error}")
        return False
    return True


def describe(name, checks):
    """Return the checks in a line."""
    return (
        f"{name}: log Z {checks.log_evidence:.4f} ± {checks.log_evidence_sd:.4f}, by {checks.second_way} "
        f"{checks.second_log_evidence:.4f} ± {checks.second_log_evidence_sd:.4f} ({checks.evidence_z:.1f} sd), "
        f"tempered {checks.tempered_log_evidence:.2f}; "
        f"share {checks.share:.2f} (second {checks.second_share or 1:.2f}), "
        f"k {checks.shape:.2f} (second {checks.second_shape or 0:.2f}), "
        f"chains' z {checks.worst_z:.1f}, distinct {checks.distinct:.4f}"
    )


def main():
    """Read the command line."""
    stored = [name for name in MODELS if name not in SAME_AS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(stored)}; all if left out")
    parser.add_argument("--again", action="store_true", help="also those that are stored")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="only print what is stored")
    options = parser.parse_args()
    unknown = set(options.names) - set(stored)
    if unknown:
        parser.error(f"unknown {', '.join(sorted(unknown))}; there is {', '.join(stored)}")
    names = options.names or stored
    if options.show:
        for name in filter(is_made, names):
            print(describe(name, checks_of(read_truth(path_of(name)))))
        return
    wanted = [name for name in names if options.again or not is_made(name)]
    done = [make(name, Effort(**MORE.get(name, {})), options.seed) for name in wanted]
    if not all(done):
        raise SystemExit("some truths could not be trusted and are not written")


if __name__ == "__main__":
    main()
