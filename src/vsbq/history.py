"""What each step tells about how it went: read in reports and files, never by a later step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vsbq.errors import Argument, Message

__all__ = [
    "ERRORS",
    "Elbo",
    "Evidence",
    "History",
    "NoiseFinding",
    "RefinedFit",
    "SurrogateFit",
    "Trimmed",
    "VariationalFit",
]


class NoiseFinding(NamedTuple):
    """What was found about the noise: `factor` multiplies given standard deviations; `sd` is the typical one in use."""

    kind: str  # "exact", "given", "estimated" or "rescaled"
    sd: float
    factor: float
    replicates: int  # degrees of freedom of evaluations at the same point

    @property
    def words(self) -> str:
        """What the user should know; empty where everything is as it was said to be."""
        if self.kind == "estimated":
            return Message(
                f"No log_density_sd was given, but the evaluations are noisy: a standard deviation of {self.sd:.2g} is "
                "estimated from them and used. Give ",
                Argument("log_density_sd", said="log_density_sd"),
                " if you know it.",
            )
        if self.kind == "rescaled":
            much = f"have {self.factor:.2g} times the noise" if self.factor >= 0.01 else "have far less noise"
            return (
                f"The evaluations {much} that log_density_sd says; it is multiplied by {self.factor:.2g}. Is it a "
                "standard deviation, and of the log density itself? Settings(check_noise=False) takes it as it is."
            )
        return ""


class Trimmed(NamedTuple):
    """What step 1 did."""

    given: int
    kept: int
    trimmed: int
    merged: int
    zero_density: int
    at_edge: int
    steps: int = 0  # of finite differences, which became gradients


class SurrogateFit(NamedTuple):
    """How the surrogate came about."""

    bound: float
    bounds_by_round: tuple[float, ...]
    inducing: int
    jitter: float
    miss: float  # root mean square residual of the high-density evaluations beyond their noise, nats
    shaping_strength: float  # learnt factor of the shaping noise
    failures: int  # factorisations that failed and were stepped over
    rotated: bool  # whether the surrogate works in whitened coordinates
    held_out: tuple[float, ...] = ()  # root mean square errors of held-out blocks, in predicted standard deviations


class VariationalFit(NamedTuple):
    """How the mixture came about."""

    starts: tuple[tuple[str, float], ...]  # name of a start and its ELBO after the first schedule
    components: int


class RefinedFit(NamedTuple):
    """How the refinement went."""

    method: str  # "importance", "sequential" or "none"
    pareto_shape: float
    effective_share: float  # of the draws
    share_outside: float  # of the mixture's mass where the surrogate is not trusted
    steps: int  # temperatures of the sequential Monte Carlo
    cuts: tuple[tuple[int, int], ...] = ()  # parameters and sides (-1, 1) on which the evaluations end too early


class History(NamedTuple):
    """How the fit went: read in reports, never by the algorithm."""

    trimmed: Trimmed
    surrogate: SurrogateFit
    variational: VariationalFit
    seconds: dict[str, float]
    version: str
    refinement: RefinedFit | None = None
    noise: NoiseFinding | None = None
    rng: str | None = None  # what the random numbers came from
    settings: tuple[str, ...] | None = None  # those that differ from the default


class Elbo(NamedTuple):
    """The evidence lower bound, the sd that the surrogate's own uncertainty gives it, and its Monte Carlo error."""

    value: float
    sd: float
    monte_carlo_error: float


class Evidence(NamedTuple):
    """Log evidence relative to the offset, and what it may be off by: by the surrogate's uncertainty, by mass outside
    the trusted region, by Monte Carlo, by what it owes to single regions of the evaluations, by what could not be
    tested for want of evaluations, by what the surrogate believes beyond the outermost ones, by mass where it guesses,
    and by the edge of the support."""

    value: float
    surrogate_sd: float
    outside: float
    monte_carlo_error: float
    held_out_sd: float = 0.0  # jackknife over blocks of evaluations
    untested: float = 0.0  # the surrogate's uncertainty again, as far as too few blocks could be held out to test it
    sides: float = 0.0  # change of the mass beyond the evaluations if the outermost ones are left out
    untrusted: float = 0.0  # log of one plus the mass that the surrogate sees where it is not trusted
    guessed: float = 0.0  # −log of one minus the mass where the surrogate rather guesses than knows
    support_sd: float = 0.0  # over the edges that agree with the evaluations of zero density
    trend: float = 0.0  # what the evaluations leave open of the surrogate's mean

    @property
    def sd(self) -> float:
        """All of it together."""
        return float(np.sqrt(sum(part**2 for part in self[1:])))


#: What each part of the error of the evidence is called.
ERRORS = {
    "surrogate_sd": "uncertainty from the surrogate",
    "outside": "from mass that the mixture has where the surrogate is not trusted",
    "monte_carlo_error": "from random draws",
    "held_out_sd": "from what single regions of the evaluations decide",
    "untested": "from what too few evaluations leave untested",
    "sides": "from tails beyond the outermost evaluations",
    "untrusted": "from mass that may lie where the surrogate is not trusted",
    "guessed": "from mass where the surrogate extrapolates",
    "support_sd": "from where the density ends",
    "trend": "from what the evaluations leave open of the surrogate's trend",
}
