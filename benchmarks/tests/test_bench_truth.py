import os
from dataclasses import replace
from math import log, pi
from pathlib import Path
from pickle import dumps, loads

import numpy as np
import pytest
from numpy.testing import assert_allclose

from truth_marks import needs_truth, with_truth
from vsbq_bench import behaviour, reference_sampler
from vsbq_bench.behaviour import EXPERIMENTS, lotka_volterra, multisensory, observer, own_truth_path, timing
from vsbq_bench.problems import rosenbrock_gaussian
from vsbq_bench.reference_sampler import (
    Chains,
    ReferenceSampler,
    Weighted,
    differences,
    fit_proposal,
    importance_sample,
    reference_posterior,
    resample,
    run_chains,
    unbounded_space,
)
from vsbq_bench.truth import TOLERANCE, Truth, data_digest, least_effective_share, load_truth, read_truth, write_truth

SHORT = ReferenceSampler(walkers=60, burn_in=150, steps=300, components=8, pilot=3000, proposals=10_000, draws=4000)
STORED = {
    "timing_simulated": timing,
    "multisensory_simulated": multisensory,
    "observer_simulated": observer,
    "lotka_volterra": lotka_volterra,
}
PUBLISHED = {"timing": timing, "multisensory": multisensory, "observer": observer}


@pytest.fixture
def no_data(monkeypatch):
    monkeypatch.delenv("VSBQ_DATA", raising=False)


def toy_log_density(x):
    """Beta(2, 1) on [0, 3], a gamma of shape 2 above 1 and N(x1, 1/4), times 7: log evidence log 7."""
    with np.errstate(divide="ignore"):
        beta, gamma = np.log(2 * x[:, 0] / 9), np.log(x[:, 1] - 1) - (x[:, 1] - 1)
    normal = -2 * (x[:, 2] - x[:, 0]) ** 2 - 0.5 * log(2 * pi * 0.25)
    return log(7) + beta + gamma + normal


TOY_BOUNDS = np.array([[0.0, 3.0], [1.0, np.inf], [-np.inf, np.inf]])
TOY_BOX = np.array([[0.5, 2.5], [1.5, 5.0], [0.0, 3.0]])


# Sampling


def test_bounded_toy_problem_is_solved(rng):
    found = reference_posterior(toy_log_density, TOY_BOUNDS, TOY_BOX, rng, sampler=SHORT)
    assert abs(found.log_evidence - log(7)) < 4 * found.log_evidence_sd < 0.05
    assert found.worst_z < 4.5
    assert found.effective_share > 0.6
    assert found.distinct > 0.99
    means, sds = found.draws.mean(axis=0), found.draws.std(axis=0)
    expected = np.array([2.0, 3.0, 2.0])  # 3 · 2/3, 1 + 2, that of x1
    assert (np.abs(means - expected) < 4.5 * sds / np.sqrt(len(found.draws) / 2)).all()
    assert_allclose(sds, [3 / np.sqrt(18), np.sqrt(2), np.sqrt(0.5 + 0.25)], rtol=0.08)
    assert ((found.draws >= TOY_BOUNDS[:, 0]) & (found.draws <= TOY_BOUNDS[:, 1])).all()


def test_rosenbrock_is_solved(rng):
    problem = rosenbrock_gaussian(4)
    found = reference_posterior(problem.log_density, None, problem.plausible_bounds, rng, sampler=SHORT)
    assert abs(found.log_evidence - problem.log_evidence) < 4 * found.log_evidence_sd < 0.05
    assert found.worst_z < 4.5


@pytest.mark.parametrize("forgotten", [False, True])
def test_chains_keep_the_spread_of_their_target(rng, monkeypatch, forgotten):
    """From exact draws of a normal; without the stretch's factor, the negative control, they shrink."""
    if forgotten:
        propose = reference_sampler._propose
        monkeypatch.setattr(reference_sampler, "_propose", lambda *a: (moved := propose(*a)[0], np.zeros(len(moved))))
    start = rng.standard_normal((400, 6))
    chains = run_chains(lambda u: -0.5 * (u**2).sum(axis=1), start, 150, rng)
    worth = chains.positions[..., 0].size / chains.autocorrelation_time
    spread = (chains.positions**2).mean(axis=(0, 1))
    assert (np.abs(spread - 1) < 4.5 * np.sqrt(2 / worth)).all() != forgotten


def test_autocorrelation_time_of_an_autoregression(rng):
    noise = rng.standard_normal((2000, 100))
    series = np.empty_like(noise)
    series[0] = noise[0]
    for t in range(1, len(noise)):
        series[t] = 0.8 * series[t - 1] + 0.6 * noise[t]
    assert_allclose(reference_sampler._integrated_time(series), (1 + 0.8) / (1 - 0.8), rtol=0.1)
    assert_allclose(reference_sampler._integrated_time(noise), 1, rtol=0.1)


def test_differences_see_a_wrong_chain(rng):
    space = unbounded_space(None, np.tile([-1.0, 1.0], (2, 1)))
    positions = rng.standard_normal((100, 50, 2))
    weighted = Weighted(rng.standard_normal((5000, 2)), np.zeros(5000))
    assert np.abs(differences(Chains(positions, 1.0, 1.0), space, weighted)).max() < 4.5
    assert np.abs(differences(Chains(positions + 0.2, 1.0, 1.0), space, weighted)[0]).min() > 4.5
    assert np.abs(differences(Chains(positions * 1.2, 1.0, 1.0), space, weighted)[1]).min() > 4.5


def test_resampling_follows_the_weights_and_repeats_only_the_heavy(rng):
    points = np.arange(1000.0)[:, None]
    weights = rng.uniform(0.5, 2, 1000)
    weights[0] = 100.0
    picked = resample(Weighted(points, np.log(weights)), 500, rng)
    counts = np.bincount(picked[:, 0].astype(int), minlength=1000)
    expected = 500 * weights / weights.sum()
    assert (np.abs(counts - expected) < 1).all()
    assert counts[1:].max() == 1 < counts[0]


def test_start_needs_a_density_in_the_box(rng):
    with pytest.raises(ValueError, match="start box"):
        reference_posterior(lambda x: np.full(len(x), -np.inf), None, np.array([[0.0, 1.0]]), rng, sampler=SHORT)


# Storage


def some_truth(rng, n=3000):
    draws = np.column_stack([rng.standard_normal(n), 1e-3 * rng.exponential(size=n)])
    return Truth(
        draws=draws,
        log_evidence=-3.25,
        log_evidence_sd=0.01,
        effective_share=0.75,
        worst_z=1.5,
        check_points=draws[:8].copy(),
        check_values=-0.5 * (draws[:8] ** 2).sum(axis=1),
        data_digest="abc",
        made="by hand",
    )


def test_truth_survives_its_file(rng, tmp_path):
    truth = some_truth(rng)
    write_truth(tmp_path / "some.npz", truth)
    copy, again = read_truth(tmp_path / "some.npz"), read_truth(tmp_path / "some.npz")
    assert (np.abs(copy.draws - truth.draws) <= np.ptp(truth.draws, axis=0) / 65_000).all()
    assert [len(np.unique(column)) for column in copy.draws.T] == [3000, 3000]
    assert_allclose(copy.draws, again.draws, rtol=0)
    for field in ("log_evidence", "log_evidence_sd", "effective_share", "worst_z", "data_digest", "made"):
        assert getattr(copy, field) == getattr(truth, field)
    copy.check(lambda x: -0.5 * (x**2).sum(axis=1))
    with pytest.raises(ValueError, match="read-only"):
        copy.draws[0, 0] = 1.0


def test_column_of_one_value_survives(rng, tmp_path):
    truth = some_truth(rng)
    write_truth(tmp_path / "flat.npz", replace(truth, draws=np.full((10, 2), 0.3)))
    assert_allclose(read_truth(tmp_path / "flat.npz").draws, 0.3, rtol=0)


def test_draws_are_picked_without_repeats(rng):
    truth = some_truth(rng, 50)
    assert len(np.unique(truth.draw(50, rng), axis=0)) == 50
    assert not np.array_equal(truth.draw(10, rng), truth.draw(10, rng))
    with pytest.raises(ValueError, match=r"only 50 draws .* request for 51"):
        truth.draw(51, rng)


@pytest.mark.parametrize("error", [3 * TOLERANCE, -0.1, np.nan])
def test_fingerprint_tells_another_density(rng, error):
    truth = some_truth(rng)
    with pytest.raises(ValueError, match="another log density"):
        truth.check(lambda x: np.where(np.arange(len(x)) == 5, error, 0.0) - 0.5 * (x**2).sum(axis=1))


def test_digest_knows_numbers_alone():
    table = np.array([[0.0, 1.5], [2.0, 3.0]])
    assert data_digest(table) == data_digest(np.asfortranarray(np.where(table == 0, -0.0, table)))
    assert len({data_digest(t) for t in (table, table.T, table + 1e-9, table.reshape(1, 4))}) == 4


def test_loader_names_what_there_is():
    with pytest.raises(ValueError, match=r"no truth is stored for 'nothing'; there is .*lotka_volterra"):
        load_truth("nothing")


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04 cut off"])
def test_damaged_file_is_named(tmp_path, content):
    path = tmp_path / "broken.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"broken\.npz is not a file of a truth"):
        read_truth(path)


def test_file_of_other_arrays_is_refused(tmp_path):
    np.savez(tmp_path / "other.npz", samples=np.zeros(3))
    with pytest.raises(ValueError, match="not a file of a truth"):
        read_truth(tmp_path / "other.npz")


# Stored truths


def agree(draws, weighted):
    """Whether means and variances of draws are those of weighted ones, within 4.5 standard errors."""
    centre, weights = draws.mean(axis=0), weighted.weights
    good = []
    for power in (1, 2):
        ours, theirs = (draws - centre) ** power, (weighted.points - centre) ** power
        mean = weights @ theirs
        error = np.sqrt(weights**2 @ (theirs - mean) ** 2 + ours.var(axis=0) / len(draws))
        good.append(np.abs(ours.mean(axis=0) - mean) < 4.5 * error)
    return np.stack(good)


def check_stored(name, problem, rng):
    truth = load_truth(name)
    assert problem.name == name
    assert truth.draws.shape == (40_000, problem.dimension)
    least = least_effective_share(problem.dimension)
    assert truth.effective_share > least
    assert truth.worst_z < 4
    space = unbounded_space(problem.bounds, problem.plausible_bounds)
    proposal = fit_proposal(space.forward(truth.draws[::2]), 16, rng)
    weighted = importance_sample(problem.log_density, space, proposal, 3000, rng)
    assert weighted.effective_share > 0.65 * least
    error = np.hypot(weighted.log_evidence_sd, problem.log_evidence_sd)
    assert abs(weighted.log_evidence - problem.log_evidence) < 4.5 * error < 0.2
    draws = problem.draw(20_000, rng)
    assert agree(draws, weighted).all()
    centre, spread = draws.mean(axis=0), draws.std(axis=0)
    assert not agree(draws + 0.75 * spread, weighted)[0].any()
    assert not agree(centre + 2 * (draws - centre), weighted)[1].any()


@pytest.mark.parametrize("name", [with_truth(name) for name in STORED])
def test_stored_truth_is_the_posterior(name, rng, no_data):
    check_stored(name, STORED[name](), rng)


@pytest.mark.skipif(not os.environ.get("VSBQ_DATA"), reason="VSBQ_DATA names no folder with the published data")
@pytest.mark.parametrize("name", [with_truth(name) for name in PUBLISHED])
def test_stored_truth_is_the_posterior_of_the_published_data(name, rng):
    check_stored(name, PUBLISHED[name](), rng)


@pytest.mark.parametrize("name", [with_truth(name) for name in STORED])
def test_problem_is_complete_and_travels_light(name, rng, no_data):
    problem = STORED[name]()
    draws = problem.draw(20, rng)
    assert np.isfinite(problem.log_density(draws)).all()
    assert np.isfinite(problem.log_density(problem.draw_prior(20, rng))).all()
    assert (problem.plausible_bounds[:, 0] < problem.plausible_bounds[:, 1]).all()
    assert len(problem.names) == problem.dimension
    sent = dumps(problem)
    assert len(sent) < 200_000  # the 40,000 draws stay at home
    assert_allclose(loads(sent).log_density(draws), problem.log_density(draws))


# Data


def write_trials(path, experiment, seed):
    """A table like the published one, of a participant simulated with another seed."""
    trials = experiment.simulate(np.random.default_rng(seed))
    if experiment.name == "timing":
        head = "interval_s,response_s"
        columns = [trials.intervals, trials.responses]
    else:
        head = "coherence_level,vestibular_deg,visual_deg,response"
        columns = [trials.level + 1, trials.vestibular, trials.visual, np.where(trials.same, 1, 2)]
    np.savetxt(path, np.column_stack(columns), delimiter=",", header=head, comments="", fmt="%.17g")
    return path


@pytest.mark.parametrize(
    "experiment",
    [pytest.param(e, marks=[needs_truth(e.name), needs_truth(f"{e.name}_simulated")], id=e.name) for e in EXPERIMENTS],
)
def test_other_data_have_no_truth_until_one_is_made(experiment, tmp_path, no_data, rng):
    data = write_trials(tmp_path / "mine.csv", experiment, 5)
    make = PUBLISHED[experiment.name]
    with pytest.raises(ValueError, match=rf"no truth .*mine\.csv.*make_truth\.py {experiment.name} --data"):
        make(data)
    unsolved = experiment.unsolved(data)
    points = load_truth(f"{experiment.name}_simulated").draws[:8]
    truth = replace(
        load_truth(f"{experiment.name}_simulated"),
        check_points=points,
        check_values=unsolved.log_density(points),
        data_digest=unsolved.data_digest,
    )
    write_truth(own_truth_path(experiment, data), truth)
    assert make(data).name.startswith(f"{experiment.name}_{unsolved.data_digest[:8]}")
    assert make(data).draw(5, rng).shape == (5, len(unsolved.names))
    write_trials(data, experiment, 6)
    with pytest.raises(ValueError, match="belongs to other data"):
        make(data)


def test_data_come_from_the_argument_or_the_folder_or_are_simulated(tmp_path, monkeypatch):
    named, foldered = tmp_path / "a.csv", tmp_path / "timing.csv"
    for path, seed in ((named, 5), (foldered, 6)):
        write_trials(path, EXPERIMENTS[0], seed)
    monkeypatch.setenv("VSBQ_DATA", str(tmp_path))
    with pytest.raises(ValueError, match=r"a\.csv"):
        timing(named)
    with pytest.raises(ValueError, match=r"timing\.csv"):
        timing()
    with pytest.raises(ValueError, match=r"there is no .*multisensory\.csv"):
        multisensory()
    monkeypatch.delenv("VSBQ_DATA")
    assert timing().name == "timing_simulated"


def test_simulated_participant_of_other_random_numbers_is_told(monkeypatch, no_data):
    monkeypatch.setattr(behaviour, "PARTICIPANT", 99)
    with pytest.raises(ValueError, match="numpy draws other random numbers"):
        multisensory()


@pytest.mark.skipif(not os.environ.get("VSBQ_DATA"), reason="VSBQ_DATA names no folder with the published data")
def test_published_data_are_known_by_their_numbers(tmp_path):
    """Not by their file: the same numbers written otherwise are the same data."""
    rows = (Path(os.environ["VSBQ_DATA"]) / "timing.csv").read_text().splitlines()
    copy = tmp_path / "copy.csv"
    copy.write_text("\r\n".join([rows[0], *(row + "0" for row in rows[1:])]))
    assert timing(copy).name == "timing"
