"""The two entries of this package: its default, and the algorithm as printed in the paper."""

from __future__ import annotations

from dataclasses import asdict
from time import perf_counter

from vsbq.fit import fit
from vsbq.settings import Settings, Steps
from vsbq_bench.task import Answer, Task

__all__ = ["recycle"]


def recycle(task: Task, settings: Settings | Steps) -> Answer:
    """Fit the posterior to the trace, with no further call of the model."""
    start = perf_counter()
    post = fit(
        task.trace.points,
        task.trace.log_density,
        log_density_sd=task.trace.log_density_sd,
        bounds=task.problem.bounds,
        settings=settings,
        rng=task.rng,
        progress=False,
    )
    assert post.history is not None  # a fit in this process has one
    seconds = {**post.history.seconds, "total": perf_counter() - start}
    return Answer(
        draws=post.sample(task.draws, task.rng),
        log_evidence=post.log_evidence,
        log_evidence_sd=post.log_evidence_sd,
        seconds=seconds,
        settings=asdict(settings.steps() if isinstance(settings, Settings) else settings),
        details={
            "kept": post.history.trimmed.kept,
            "inducing": post.history.surrogate.inducing,
            "components": post.history.variational.components,
            "noise": None if post.history.noise is None else post.history.noise._asdict(),
            "elbo": post.elbo,
            "elbo_sd": post.elbo_sd,
            "evidence": None if post.refined is None else post.refined.evidence._asdict(),
            "refinement": None if post.history.refinement is None else post.history.refinement._asdict(),
        },
    )
