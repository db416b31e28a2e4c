"""Accuracy against calls: a trace and a handful more, beside PyVBMC and beside more of the same optimiser.

    python benchmarks/calls.py --processes 2      about 6 hours on 2 cores; what has its lines is not run again
    python benchmarks/calls.py --models wald michaelis_menten --noise 0      a quarter of an hour
    python benchmarks/calls.py --figure docs/calls.png --table

Each model gets a trace of Nelder–Mead, runs from random starts one after the other, 60 D evaluations in all. Then, with
up to 30 D calls more:

improve           `Posterior.improve`, at the points that it suggests
posterior_draws   the control: the same batches, at draws of the posterior of the moment
optimiser         the fit of the same trace, gone on for so many evaluations
pyvbmc            PyVBMC from nothing: it knows the plausible box, and none of the trace
pyvbmc_trace      PyVBMC that is given the trace's 100 highest distinct evaluations (`precomputed_evaluations`)

PyVBMC runs with its own defaults but for the number of calls. Scores are those of the paper; the models are subjects of
the development half of the zoo. A line for each method and number of calls in benchmarks/results/calls.jsonl.
"""

import argparse
import warnings
from functools import partial
from pathlib import Path
from time import process_time
from zlib import crc32

import numpy as np

import vsbq
from vsbq.improve.loop import _batch
from vsbq_bench.cases.cases import all_cases
from vsbq_bench.cases.subjects import SCIENCE, SHAPES
from vsbq_bench.cases.traces import case_trace
from vsbq_bench.job import _commit
from vsbq_bench.metrics import gskl, mmtv
from vsbq_bench.parallel import append_lines, in_processes
from vsbq_bench.trust.study import read_study

RESULTS = Path(__file__).parent / "results" / "calls.jsonl"

MODELS = (
    "psychometric",
    "wald",
    "epidemic",
    "fitzhugh_nagumo",
    "dose_response",
    "michaelis_menten",
    "two_exponentials",
    "dead_time",
    "logistic_cauchy",
    "ordinal_probit",
    "gompertz",
    "capture_recapture",
    "q_learning",
    "funnel_6",
    "three_near_modes",
)
NOISE = (0.0, 1.0, 3.0)
TRACE = 60  # evaluations for each parameter
BUDGETS = (0, 5, 10, 20, 30)  # calls for each parameter beyond the trace
BEST = 100  # evaluations of the trace that PyVBMC is given: its exact Gaussian process takes hundreds, not thousands
DRAWS = 5000


def problem_of(name):
    """The model of that name."""
    all_cases()  # which registers its subjects
    return {**SCIENCE, **SHAPES}[name].make()


def trace_of(problem, noise, calls):
    """What Nelder–Mead leaves, with so many calls beyond the usual ones: the first ones are always the same."""
    rng = np.random.default_rng([crc32(problem.name.encode()), round(noise), 21])
    size = TRACE * problem.dimension + calls
    return case_trace(
        problem, rng, optimiser="nelder_mead", several=True, evaluations=size, noise=noise, box="plausible"
    )


def fitted(problem, trace, seed):
    """The fit of a trace."""
    noise, bounds = trace.log_density_sd, problem.bounds
    return vsbq.fit(trace.points, trace.log_density, log_density_sd=noise, bounds=bounds, rng=seed, progress=False)


class Model:
    """The log density as a user would have it: one point, a value, and its noise if there is any. It counts calls."""

    def __init__(self, problem, noise, seed):
        self.problem, self.noise, self.calls = problem, noise, 0
        self.rng = np.random.default_rng([seed, 41])

    def __call__(self, x):
        """The value, or a pair."""
        self.calls += 1
        value = float(self.problem.log_density(np.reshape(x, (1, -1)))[0])
        return (value + self.noise * self.rng.standard_normal(), self.noise) if self.noise else value


def scored(problem, draws, log_evidence, rng):
    """The scores, and what exact draws have."""
    truth = problem.draw(DRAWS, rng)
    error = abs(log_evidence - problem.log_evidence)
    least = mmtv(problem.draw(DRAWS, rng), truth)
    return {"delta_lml": error, "mmtv": mmtv(draws, truth), "gskl": gskl(draws, truth), "floor": least}


def of_posterior(problem, post, rng):
    """What is kept of a posterior."""
    more = {"verdict": post.verdict, "log_evidence_sd": post.log_evidence_sd}
    return scored(problem, post.sample(DRAWS, rng), post.log_evidence, rng) | more


def run_improve(problem, noise, seed, *, draws=False):
    """Batches of calls, at suggested points or at draws; after the verdict is "trusted" nothing changes any more."""
    rng, model = np.random.default_rng([seed, 2]), Model(problem, noise, seed)
    post = fitted(problem, trace_of(problem, noise, 0), seed)
    for budget in BUDGETS:
        left = budget * problem.dimension - model.calls
        if left > 0 and post.verdict != "trusted":
            post = at_draws(post, model, left, rng) if draws else post.improve(model, left, rng=rng, progress=False)
        yield budget, model.calls, of_posterior(problem, post, rng)


def at_draws(post, model, calls, rng):
    """Updates with values at draws of the posterior of the moment."""
    while calls > 0 and post.verdict != "trusted":
        points = post.sample(min(_batch(None, post.dimension, 1), calls), rng)
        answers = np.array([model(x) for x in points])
        values, sd = (answers, None) if answers.ndim == 1 else answers.T
        post = post.update(points, values, log_density_sd=sd, rng=rng, progress=False)
        calls -= len(points)
    return post


def run_optimiser(problem, noise, seed):
    """Fits of a trace that goes on."""
    for budget in BUDGETS:
        calls = budget * problem.dimension
        post = fitted(problem, trace_of(problem, noise, calls), seed)
        yield budget, calls, of_posterior(problem, post, np.random.default_rng([seed, 2]))


def best_of(trace):
    """The highest distinct evaluations, the highest first."""
    order = np.argsort(-trace.log_density, kind="stable")
    order = order[np.isfinite(trace.log_density[order])]
    first = np.sort(np.unique(trace.points[order], axis=0, return_index=True)[1])
    return order[first][:BEST]


def run_pyvbmc(problem, noise, seed, *, with_trace=False):
    """One run of PyVBMC: what it has after its last iteration within each budget."""
    from pyvbmc import VBMC

    model, low_high = Model(problem, noise, seed), problem.bounds
    lower, upper = (None, None) if low_high is None else low_high.T
    known, start = {}, problem.plausible_bounds.mean(axis=1)
    if with_trace:
        trace = trace_of(problem, noise, 0)
        rows = best_of(trace)
        sd = () if trace.log_density_sd is None else (trace.log_density_sd[rows],)
        known = {"precomputed_evaluations": (trace.points[rows], trace.log_density[rows], *sd)}
        start = trace.points[rows[0]]
    most = BUDGETS[-1] * problem.dimension
    options = {"display": "off", "max_fun_evals": most, "specify_target_noise": noise > 0}
    vbmc = VBMC(model, start[None], lower, upper, *problem.plausible_bounds.T, options=options, seed=seed, **known)
    vp, results = vbmc.optimize()
    history = vbmc.iteration_history
    counts, every = np.asarray(history["func_count"], dtype=int), history["vp"]
    for budget in BUDGETS[1:]:
        within = np.flatnonzero(counts <= budget * problem.dimension)
        if len(within):
            last = budget == BUDGETS[-1]
            found, elbo = (vp, results["elbo"]) if last else (every[within[-1]], history["elbo"][within[-1]])
            rng = np.random.default_rng([seed, 2])
            yield budget, int(counts[within[-1]]), scored(problem, found.sample(DRAWS)[0], float(elbo), rng)


METHODS = {
    "improve": run_improve,
    "posterior_draws": partial(run_improve, draws=True),
    "optimiser": run_optimiser,
    "pyvbmc": run_pyvbmc,
    "pyvbmc_trace": partial(run_pyvbmc, with_trace=True),
}


#: Colours of Okabe and Ito, with markers that keep them apart in grey.
LOOKS = {
    "improve": ("#0072B2", "o"),
    "posterior_draws": ("#777777", "P"),
    "optimiser": ("#E69F00", "s"),
    "pyvbmc": ("#CC79A7", "X"),
    "pyvbmc_trace": ("#009E73", "D"),
}


def run(job):
    """The lines of a job: a model, its noise, a method and a seed. What fails has a line that says why."""
    name, noise, method, seed = job
    problem, start, lines = problem_of(name), process_time(), []
    about = {"model": name, "dimension": problem.dimension, "noise": noise, "method": method, "seed": seed}
    about["commit"] = _commit()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for budget, calls, found in METHODS[method](problem, noise, seed):
                spent = {"cpu_seconds": process_time() - start}
                lines.append(about | {"budget": budget, "calls": calls} | found | spent)
    except Exception as error:  # a failure of any of them is a result
        lines.append(about | {"error": f"{type(error).__name__}: {error}"[:300]})
    return lines


def table(lines):
    """Medians over the models by method and calls; how many are usable."""
    rows = [["noise", "method", "calls", "models", "MMTV / floor", "ΔLML", "GsKL", "usable", "failed"]]
    rows.append(["---"] * len(rows[0]))
    for noise in sorted({line["noise"] for line in lines}):
        for method in METHODS:
            own = [line for line in lines if (line["noise"], line["method"]) == (noise, method)]
            failed = sum("error" in line for line in own)
            for budget in BUDGETS:
                these = [line for line in own if line.get("budget") == budget]
                if these:
                    rows.append([f"{noise:g}", method, f"{budget} D", *medians(these), str(failed)])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def medians(lines):
    """Cells of the table."""
    ratio = np.median([line["mmtv"] / line["floor"] for line in lines])
    error, gap = (np.median([np.inf if x[key] is None else x[key] for x in lines]) for key in ("delta_lml", "gskl"))
    return [str(len(lines)), f"{ratio:.2g}", f"{error:.2g}", f"{gap:.2g}", str(sum(usable(line) for line in lines))]


def usable(line):
    """By the paper's rule of thumb."""
    limits = {"delta_lml": 1.0, "mmtv": 0.2, "gskl": 0.125}
    return all(line[name] is not None and line[name] < limit for name, limit in limits.items())


def draw(lines, path):
    """One panel for each noise: medians over the models, and the quarter that is above, against calls."""
    from matplotlib.figure import Figure

    levels = sorted({line["noise"] for line in lines})
    figure = Figure(figsize=(1.2 + 3.2 * len(levels), 3.2), dpi=130, layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(levels), sharey=True))
    for axes, noise in zip(panels, levels, strict=True):
        for method, (colour, marker) in LOOKS.items():
            own = [x for x in lines if (x["noise"], x["method"]) == (noise, method) and "budget" in x]
            at = sorted({line["budget"] for line in own})
            ratios = [[x["mmtv"] / x["floor"] for x in own if x["budget"] == budget] for budget in at]
            if at:
                middle, upper = ([np.quantile(each, q) for each in ratios] for q in (0.5, 0.75))
                axes.plot(at, middle, marker=marker, color=colour, ms=4, lw=1.2, label=method.replace("_", " "))
                axes.plot(at, upper, color=colour, lw=0.6, ls=":")
        axes.axhline(1.0, color="#cccccc", lw=0.8, zorder=0)
        axes.set(yscale="log", title=f"noise {noise:g}", xlabel="calls beyond the trace, for each parameter")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("MMTV, multiples of its floor")
    panels[0].legend(fontsize=7, frameon=False)
    figure.savefig(path)


def jobs_of(options):
    """What is missing, models first, so that all methods of one are there soon."""
    have = {(x["model"], x["noise"], x["method"], x["seed"]) for x in read_study(options.lines)}
    models, noise, methods = options.models or MODELS, options.noise or NOISE, options.methods or METHODS
    every = [(m, sd, how, seed) for seed in range(options.seeds) for sd in noise for m in models for how in methods]
    return [job for job in every if job not in have]


def main():
    """Run what is missing, then draw or print what is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, help="default: all")
    parser.add_argument("--noise", nargs="+", type=float, help="default: 0, 1 and 3")
    parser.add_argument("--methods", nargs="+", choices=METHODS, help="default: all")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--lines", type=Path, default=RESULTS, help="file of the lines")
    parser.add_argument("--figure", type=Path, help="draw the lines that are there, and run nothing")
    parser.add_argument("--table", action="store_true", help="print their table, and run nothing")
    options = parser.parse_args()
    if options.figure:
        draw(read_study(options.lines), options.figure)
    if options.table:
        print(table(read_study(options.lines)))
    if options.figure or options.table:
        return
    for job, lines in in_processes(run, jobs_of(options), options.processes):
        append_lines(options.lines, lines)
        scores = [f"{x['budget']} D {x['mmtv'] / x['floor']:.1f}" if "budget" in x else x["error"] for x in lines]
        print(*job, "MMTV / floor:", ", ".join(scores), flush=True)


if __name__ == "__main__":
    main()
