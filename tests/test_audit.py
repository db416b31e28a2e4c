"""What the audit finds, and that the sign check is silent on good data and loud on negated traces."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import vsbq
from vsbq.data.audit import Audit, Finding, audit
from vsbq.data.evaluations import Evaluations
from vsbq.data.signs import copied_column, duplicate_groups, looks_negated


def gaussian(seed=0, n=600, d=2, **options):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, d))
    return Evaluations(points, -0.5 * np.sum(points**2, axis=1), **options)


def with_values(ev, log_density, **options):
    return Evaluations(ev.points, log_density, check_sign=False, **options)


def topics(ev, severity="warning"):
    return [finding.topic for finding in audit(ev).findings if finding.severity == severity]


def message(ev, topic):
    return next(f.message for f in reversed(audit(ev).findings) if f.topic == topic)


def test_nothing_odd_gives_no_warning():
    ev = gaussian()
    found = audit(ev)
    assert found.warnings == ()
    assert "600 evaluations of 2 parameters ('x1' and 'x2')" in message(ev, "size")
    assert "within 5.9 nats of the best" in message(ev, "top region")


def test_the_block_is_readable():
    found = Audit((Finding("info", "size", "There are 3."), Finding("warning", "sign", "Looks negated.")))
    assert (
        str(found)
        == "Audit of the evaluations: 1 warning\n  info    size: There are 3.\n  warning sign: Looks negated."
    )
    assert str(Audit(())) == "Audit of the evaluations: no warnings"


def test_few_evaluations():
    assert topics(gaussian(n=199)) == ["size"]
    assert "200 or more are advised. Add evaluations" in message(gaussian(n=199), "size")


def test_many_parameters():
    ev = gaussian(n=2200, d=21)
    assert topics(ev) == ["dimension"]
    assert "21 parameters are more than the 20" in message(ev, "dimension")


def test_notes_of_the_input_are_passed_on():
    ev = gaussian()
    y = ev.log_density.copy()
    y[3] = np.nan
    noted = Evaluations(ev.points, y, nonfinite="drop")
    assert message(noted, "input") == "Left out 1 row with NaN or inf (row 3)."


def test_duplicates_are_counted():
    ev = gaussian()
    assert "duplicates" not in topics(ev, "info")
    twice = ev + ev.take([1, 2, 3] * 20)
    assert "60 evaluations repeat" in message(twice, "duplicates")
    assert "counted once" in message(twice, "duplicates")


@pytest.mark.parametrize(("share", "severity"), [(0.2, "info"), (0.6, "warning")])
def test_share_of_zero_density(share, severity):
    ev = gaussian()
    y = np.where(np.arange(len(ev)) < share * len(ev), -np.inf, ev.log_density)
    assert "zero density" in topics(with_values(ev, y), severity)
    assert f"{share:.0%} of the log densities are -inf (rows 0, 1, 2, 3, 4 and" in message(
        with_values(ev, y), "zero density"
    )


def test_huge_values():
    ev = gaussian()
    assert topics(with_values(ev, ev.log_density - 3e9)) == ["scale"]
    assert "-3e+09" in message(with_values(ev, ev.log_density - 3e9), "scale")


def test_values_that_stand_for_a_failure():
    ev = gaussian()
    y = np.where(np.arange(len(ev)) % 50 == 0, -1e10, ev.log_density)
    assert topics(with_values(ev, y)) == ["stand-in value"]
    assert "12 evaluations at different points share" in message(with_values(ev, y), "stand-in value")
    advised = re.search(r"zero_below=(\S+),", message(with_values(ev, y), "stand-in value"))
    assert advised is not None
    told = with_values(ev, y, zero_below=float(advised.group(1)))
    assert np.isneginf(told.log_density).sum() == 12
    assert topics(told) == []


def test_noise_beyond_what_neighbours_differ_by(rng):
    ev = gaussian()
    assert topics(with_values(ev, ev.log_density, log_density_sd=0.1)) == []
    assert topics(with_values(ev, ev.log_density, log_density_sd=5.0)) == ["noise"]
    assert "Check that log_density_sd holds standard" in message(
        with_values(ev, ev.log_density, log_density_sd=5.0), "noise"
    )
    noisy = ev.log_density + 5.0 * rng.standard_normal(len(ev))
    assert "noise" not in topics(with_values(ev, noisy, log_density_sd=5.0))  # as noisy as it is said to be


def test_few_evaluations_in_the_top_region():
    ev = gaussian()
    steep = with_values(ev, 1000 * ev.log_density)
    assert topics(steep) == ["top region"]
    assert "20 or more are advised: add evaluations there" in message(steep, "top region")


def test_points_on_a_bound():
    ev = gaussian()
    points = ev.points.copy()
    points[[4, 8], [0, 1]] = [-9.0, 9.0 - 1e-9]
    bounded = Evaluations(points, ev.log_density, bounds=[(-9, None), (-9, 9)])
    assert "2 evaluations at a bound of 'x1' and 'x2' (rows 4 and 8)" in message(bounded, "bounds")
    assert topics(bounded) == []


def test_best_evaluations_that_pile_up_at_a_bound():
    rng = np.random.default_rng(0)
    points = np.column_stack([rng.uniform(0, 1, 2000) ** 4, rng.uniform(0, 1, 2000)])
    bounds = {"a": (0, 1), "b": (0, 1)}
    ev = Evaluations(points, -300 * points[:, 0], names=["a", "b"], bounds=bounds)
    assert topics(ev) == []  # a density that is highest at its bound is nothing to worry about
    assert "pile-up" in topics(ev, "info")
    assert "hard bound of 'a', where the density may be highest" in message(ev, "pile-up")


def test_an_audit_of_few_or_no_finite_rows_still_speaks():
    ev = gaussian()
    for rows in ([], [1]):
        assert audit(ev.take(rows)).findings
    nothing = with_values(ev, np.where(np.arange(len(ev)) < 100, -np.inf, ev.log_density)).take(np.arange(100))
    assert "zero density" in topics(nothing)


def test_negated_values_are_a_warning_here():
    points, y = climb(gaussian_target(2, np.random.default_rng(0)), 2, np.random.default_rng(1))
    negated = Evaluations(points, -y, check_sign=False)
    assert "sign" in topics(negated)
    assert "neg_log_density=" in message(negated, "sign")


def test_duplicate_groups_point_to_the_first_row():
    points = np.array([[1.0, 2.0], [0.0, 0.0], [1.0, 2.0], [1.0, 3.0], [-0.0, 0.0], [1.0, 2.0]])
    np.testing.assert_array_equal(duplicate_groups(points), [0, 1, 0, 3, 1, 0])


def test_copied_column_is_none_for_strong_but_real_correlation():
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000)
    near = x + 1e-4 * rng.normal(size=2000)
    assert copied_column(np.column_stack([x, near])) is None
    assert copied_column(np.column_stack([near, x, 5 - 3 * x])) == (1, 2)


# The sign check: traces of a small evolution strategy, other designs, and targets with light and heavy tails


def gaussian_target(d, rng):
    mix, mean = rng.normal(size=(d, d)) + np.eye(d), 2 * rng.normal(size=d)
    scale = np.exp(1.5 * rng.normal(size=d))
    return lambda x: -0.5 * np.sum((((x - mean) / scale) @ mix.T) ** 2, axis=1)


def rosenbrock_target(d, rng):
    return lambda x: -10 * np.sum((x[:, 1:] - x[:, :-1] ** 2) ** 2, axis=1) - 0.1 * np.sum((1 - x) ** 2, axis=1)


def bimodal_target(d, rng):
    centre = 4 * rng.normal(size=d)
    return lambda x: np.logaddexp(
        -0.5 * np.sum((x - centre) ** 2, axis=1), -0.5 * np.sum((x + centre) ** 2, axis=1) - 1
    )


def cauchy_target(d, rng):
    mean = 2 * rng.normal(size=d)
    return lambda x: -np.sum(np.log1p((x - mean) ** 2), axis=1)


def plateau_target(d, rng):
    return lambda x: np.logaddexp(-0.5 * np.sum(x**2, axis=1), -30.0)


TARGETS = [gaussian_target, rosenbrock_target, bimodal_target, cauchy_target, plateau_target]


def climb(target, d, rng, *, n=None, step=2.0, start=6.0):
    """A trace like that of CMA-ES: sample, move to the better half, adapt the covariance and the step."""
    size, n = 6 + int(3 * np.log(d + 1)), n or 150 * d + 300
    mean, cov, points, values = rng.uniform(-start, start, d), np.eye(d), [], []
    while size * len(points) < n:
        root = np.linalg.cholesky(cov + 1e-12 * np.trace(cov) * np.eye(d))
        z = rng.normal(size=(size, d))
        x = mean + step * z @ root.T
        y = target(x)
        best = np.argsort(-y)[: size // 2]
        drift = z[best].mean(axis=0)
        mean = mean + step * root @ drift
        cov = 0.8 * cov + 0.2 * (z[best] @ root.T).T @ (z[best] @ root.T) / len(best)
        step *= np.exp(0.4 * (np.linalg.norm(drift) * np.sqrt(len(best) / d) - 1))
        points.append(x)
        values.append(y)
    return np.concatenate(points)[:n], np.concatenate(values)[:n]


def uniform(target, d, rng):
    points = rng.uniform(-8, 8, (100 * d + 100, d)) * rng.choice([1, 6])
    return points, target(points)


def heavy(target, d, rng):
    points = rng.standard_t(1.5, (100 * d + 100, d))
    return points, target(points)


def stopped_early(target, d, rng):
    return climb(target, d, rng, n=int(rng.integers(60, 200)), step=10 ** rng.uniform(-3, 0), start=100.0)


DESIGNS = [climb, climb, uniform, heavy, stopped_early]


@pytest.mark.parametrize("seed", range(10))
def test_the_right_sign_is_never_doubted(seed):
    rng = np.random.default_rng(seed)
    for make_target in TARGETS:
        for design in DESIGNS:
            d = int(rng.integers(1, 11))
            points, y = design(make_target(d, rng), d, rng)
            noisy = y + rng.choice([0.0, 0.0, 1.0, 3.0]) * rng.normal(size=len(y))
            assert not looks_negated(points, noisy), (make_target.__name__, design.__name__, d)


@pytest.mark.parametrize("make_target", [gaussian_target, rosenbrock_target, bimodal_target])
def test_the_wrong_sign_of_a_trace_is_nearly_always_seen(make_target):
    rng = np.random.default_rng(7)
    seen = []
    for _ in range(20):
        d = int(rng.integers(2, 11))
        points, y = climb(make_target(d, rng), d, rng)
        seen.append(looks_negated(points, -y))
    assert np.mean(seen) >= 0.9


def test_too_few_or_equal_values_are_not_judged():
    assert not looks_negated(np.zeros((19, 1)), np.arange(19.0))
    assert not looks_negated(np.zeros((30, 1)), np.zeros(30))


def scale_of_a_spike(rng, n, power):
    """A location on a data point and a scale whose density goes like scale ** power."""
    scale = 10 ** rng.uniform(-5, 1, n)
    points = np.column_stack([rng.normal(0, 0.1, n), scale])
    return Evaluations(
        points, power * np.log(scale) - 0.5 * points[:, 0] ** 2 - scale, bounds=[(None, None), (0, None)]
    )


def test_a_density_without_limit_is_named(rng):
    found = [f for f in audit(scale_of_a_spike(rng, 400, -1.0)).warnings if f.topic == "unbounded density"]
    assert len(found) == 1
    assert "'x2' approaches its lower bound 0" in found[0].message
    assert "prior that vanishes" in found[0].message


def test_a_density_that_vanishes_at_its_bound_is_not_accused(rng):
    assert not [f for f in audit(scale_of_a_spike(rng, 400, 2.0)).warnings if f.topic == "unbounded density"]
    assert not [f for f in audit(scale_of_a_spike(rng, 400, 0.0)).warnings if f.topic == "unbounded density"]


# Values that are no log density


def several_runs(rng, d=3, runs=4, steps=80, width=10.0):
    """Runs that start in a wide box and contract towards the mode of a standard normal."""
    rows = []
    for _ in range(runs):
        start = rng.uniform(-width, width, (5 * d, d))
        best = start[np.argmin((start**2).sum(axis=1))]
        shrink = np.exp(-np.linspace(0, 4, steps))[:, None]
        rows += [start, best * shrink + shrink * rng.normal(size=(steps, d))]
    return np.concatenate(rows)


LOSSES = {
    "mean square": lambda nats: -(1.0 + nats / 50),
    "root mean square": lambda nats: -np.sqrt(1.0 + nats / 50),
    "R2": lambda nats: 0.9 - nats / 500,
    "density": lambda nats: np.exp(-nats),
}


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("bounds", [None, [(-10, 10)] * 3])
def test_losses_that_flatten_are_named(kind, bounds, rng):
    x = several_runs(rng)
    ev = Evaluations(x, LOSSES[kind](0.5 * (x**2).sum(axis=1)), bounds=bounds, check_sign=False)
    (found,) = [each for each in audit(ev).warnings if each.topic in ("loss", "kind of values")]
    assert ("Pass its logarithm" if kind == "density" else "mean square, ") in found.message


@pytest.mark.parametrize("bounds", [None, [(-10, 10)] * 3])
def test_healthy_traces_are_not_accused_of_a_loss(bounds, rng):
    x = several_runs(rng)
    ev = Evaluations(x, -0.5 * (x**2).sum(axis=1), bounds=bounds)
    assert topics(ev) == []
    chain = rng.normal(size=(1000, 3))
    assert "loss" not in topics(Evaluations(chain, -0.5 * (chain**2).sum(axis=1)))


@pytest.mark.parametrize(
    ("name", "severity"), [("MSE", "warning"), ("val_rmse", "warning"), ("r2", "warning"), ("chi2", "info")]
)
def test_the_name_of_a_column_leads_to_a_question(name, severity, rng):
    x = several_runs(rng)
    found = audit(Evaluations(x, -0.5 * (x**2).sum(axis=1)), values_name=name).findings
    (one,) = [finding for finding in found if finding.topic == "loss"]
    assert one.severity == severity
    assert f"called '{name}'" in one.message
    assert one.message.endswith("Are they a log density?")


@pytest.mark.parametrize("name", ["log_density", "logp", "lnprob", "ll", "loglike"])
def test_other_names_lead_to_none(name, rng):
    x = several_runs(rng)
    found = audit(Evaluations(x, -0.5 * (x**2).sum(axis=1)), values_name=name).findings
    assert not [finding for finding in found if finding.topic == "loss"]


@pytest.mark.parametrize(("best", "asked"), [(-0.25, True), (-0.001, True), (-512.0, True), (7.0, False)])
def test_values_that_could_be_a_loss_lead_to_a_question_and_no_warning(best, asked, rng):
    x = several_runs(rng)
    ev = Evaluations(x, -0.5 * (x**2).sum(axis=1) + 0.5 * (x**2).sum(axis=1).min() + best)
    assert topics(ev) == []
    assert ("loss" in topics(ev, "info")) == asked
    assert not [each for each in audit(ev, values_name="lnprob").findings if each.topic == "loss"]


def test_a_best_value_just_below_one_is_that_of_r_squared(rng):
    x = several_runs(rng)
    values = -0.5 * (x**2).sum(axis=1) + 0.5 * (x**2).sum(axis=1).min()
    assert topics(Evaluations(x, values + 0.9)) == ["kind of values"]
    assert topics(Evaluations(x, values + 1.1)) == []


@pytest.mark.parametrize("peak", [-200.0, 40.0])
def test_the_top_few_nats_are_no_loss(peak, rng):
    x = several_runs(rng, steps=300)
    y = -0.5 * (x**2).sum(axis=1)
    top = y > y.max() - 2
    ev = Evaluations(x[top], y[top] + peak)
    assert not {"loss", "kind of values"} & set(topics(ev))


def test_the_name_of_a_column_is_kept_by_readers(rng):
    x = several_runs(rng)
    table = pd.DataFrame(x, columns=["a", "b", "c"]).assign(mse=0.5 * (x**2).sum(axis=1), cost=0.5 * (x**2).sum(axis=1))
    read = Evaluations.from_dataframe(table, neg_log_density="mse", params=["a", "b", "c"])
    assert topics(read.take(slice(0, 300))) == ["loss"]
    assert "The values are called 'mse', which may be a mean square" in message(read, "loss")
    assert "input" not in topics(read, "info")
    asked = Evaluations.from_dataframe(table, neg_log_density="cost", params=["a", "b", "c"])
    assert topics(asked) == []
    assert message(asked, "loss").endswith("Are they a log density?")


# Where the evaluations went


def test_one_side_of_the_best_is_named(rng):
    x = several_runs(rng)
    y = -0.5 * (x**2).sum(axis=1)
    left = x[:, 1] < -0.5
    ev = Evaluations(x[left], y[left], names=["a", "b", "c"])
    assert "one side" in topics(ev)
    assert "in 'b', where the best one is: the posterior is not seen to end there" in message(ev, "one side")
    assert "one side" not in topics(Evaluations(x, y))
    bound = Evaluations(x[left], y[left], bounds=[(None, None), (None, float(x[left][:, 1].max())), (None, None)])
    assert "one side" not in topics(bound)


def test_runs_that_did_not_come_to_the_top_are_counted(rng):
    x = several_runs(rng)
    y = -0.5 * (x**2).sum(axis=1)
    assert "All of them came to where the posterior is." in message(Evaluations(x, y), "runs")
    alone = x.copy()
    alone[: 3 * len(x) // 4, 0] += 25.0
    ev = Evaluations(alone, -0.5 * (alone**2).sum(axis=1))
    assert "Only one of them came to where the posterior is" in message(ev, "runs")


# Values that cannot be of one function


def test_values_that_claim_to_be_high_are_named(rng):
    x = several_runs(rng)
    y = -0.5 * (x**2).sum(axis=1)
    wrong = np.argsort(y)[[30, 60]]
    y[wrong] = 4.0
    ev = Evaluations(x, y)
    assert "outliers" in topics(ev)
    assert any(f"row {row}" in message(ev, "outliers") or f" {row} " in message(ev, "outliers") for row in wrong)
    y[wrong] = -0.5 * (x[wrong] ** 2).sum(axis=1)
    assert "outliers" not in topics(Evaluations(x, y))


def test_runs_that_are_offset_are_named(rng):
    x = several_runs(rng)
    y = -0.5 * (x**2).sum(axis=1)
    y[len(y) // 2 :] += 4.0
    ev = Evaluations(x, y)
    assert "offset" in topics(ev)
    assert "higher than before at the same places" in message(ev, "offset")
    assert "offset" not in topics(Evaluations(x, -0.5 * (x**2).sum(axis=1)))


def test_runs_are_told_from_the_order_of_the_rows(rng):
    x = several_runs(rng)
    y = -0.5 * (x**2).sum(axis=1)
    assert "like 4 runs" in message(Evaluations(x, y), "runs")
    order = rng.permutation(len(x))
    assert "like one run" in message(Evaluations(x[order], y[order]), "runs")


def test_steps_of_finite_differences_are_no_coverage(rng):
    x = several_runs(rng, runs=1, steps=4)
    y = -0.5 * (x**2).sum(axis=1)
    copies = np.repeat(x[np.argsort(-y)[:5]], 20, axis=0) + 1e-9 * rng.normal(size=(100, 3))
    both = np.concatenate([x, copies])
    assert "top region" in topics(Evaluations(both, -0.5 * (both**2).sum(axis=1)))


def test_points_along_the_axes_are_no_trouble(rng):
    """Most values of each parameter are the same, as for an optimiser that moves along one axis at a time."""
    x = np.zeros((120, 4))
    x[np.arange(120), np.arange(120) % 4] = rng.normal(size=120)
    assert "outliers" not in topics(Evaluations(x + 3.0, -0.5 * (x**2).sum(axis=1)))


# Whole numbers


def whole(scale, n=600):
    points = np.random.default_rng(3).normal(size=(n, 2))
    points[:, 0] = np.round(scale * points[:, 0])
    return Evaluations(points, -0.5 * ((points / [scale, 1.0]) ** 2).sum(axis=1), names=["cells", "rate"])


def test_parameters_of_whole_numbers_are_noticed():
    ev = whole(20.0)
    assert topics(ev) == []
    said = message(ev, "whole numbers")
    assert "All evaluated values of 'cells' are whole numbers" in said
    assert "'rate'" not in said
    assert "m.cdf(k + 0.5) - m.cdf(k - 0.5)" in said
    assert "in place of a sum" in said


def test_a_few_whole_numbers_are_a_warning():
    ev = whole(0.7)
    assert "whole numbers" in topics(ev)
    assert "there are only" in message(ev, "whole numbers")
    assert "Fit each value by itself" in message(ev, "whole numbers")


def test_what_is_advised_on_whole_numbers_is_right():
    """A posterior over whole numbers, from the marginal of the continuous one."""
    k = np.arange(0.0, 60.0)
    grid = np.column_stack([np.repeat(k, 12), np.tile(np.linspace(-3, 3, 12), len(k))])
    values = -0.5 * ((grid[:, 0] - 30.0) / 5.0) ** 2 - 0.5 * grid[:, 1] ** 2
    post = vsbq.fit(grid, values, names=["cells", "rate"], seed=0, progress=False)
    m = post.marginal("cells")
    truth = np.exp(-0.5 * ((k - 30.0) / 5.0) ** 2)
    np.testing.assert_allclose(m.cdf(k + 0.5) - m.cdf(k - 0.5), truth / truth.sum(), atol=0.002)


def test_numbers_that_are_not_whole_are_not_noticed():
    assert "whole numbers" not in [finding.topic for finding in audit(gaussian()).findings]
    ev = whole(20.0)
    points = ev.points.copy()
    points[7, 0] += 0.25
    assert "whole numbers" not in [f.topic for f in audit(Evaluations(points, ev.log_density)).findings]
