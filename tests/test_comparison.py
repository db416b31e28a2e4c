"""Model comparison: exact probabilities, and group-level selection against its limits and direct integration."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import betaln, expit, logsumexp

from vsbq.analysis.comparison import CAVEAT, ComparisonError, compare
from vsbq.analysis.group_comparison import _variational, compare_groups, exceedance_probabilities
from vsbq.data.bounds import Bounds
from vsbq.data.evaluations import Evaluations
from vsbq.data.transform import InferenceSpace
from vsbq.history import Elbo, Evidence
from vsbq.io.files.posterior_file import load
from vsbq.numerics.mixture import Mixture
from vsbq.posterior import Posterior


def model(log_evidence: float, sd: float = 0.1) -> Posterior:
    space = InferenceSpace(Bounds.parse(None, 1), np.zeros(1), np.zeros(1), np.ones(1))
    mixture = Mixture(np.zeros(1), np.zeros((1, 1)), np.ones((1, 1, 1)))
    post = Posterior(("x",), space, mixture, Elbo(-1.0, 0.5, 0.0), 100.0, None, None, None)
    return replace(post, evidence_estimate=Evidence(log_evidence - 100.0, sd, 0.0, 0.0))


# Models


def test_two_models():
    found = compare({"one": model(-10.0, 0.3), "two": model(-12.0, 0.4)})
    assert found.best == "one"
    assert found.bayes_factor("one", "two") == pytest.approx((2.0, 0.5))
    assert found.bayes_factor("two", "one") == pytest.approx((-2.0, 0.5))
    np.testing.assert_allclose(found.probability, [expit(2.0), expit(-2.0)])
    np.testing.assert_array_equal(np.diagonal(found.log_bayes_factor_sd), 0.0)


def test_uncertainty_of_the_probabilities():
    """The log odds are normal, so that the quantiles of the probability are known."""
    found = compare({"one": (3.0, 0.6), "two": (2.0, 0.8)}, rng=1)
    exact = expit(1.0 + stats.norm.ppf([0.05, 0.95]))
    error = 4 * np.sqrt(0.05 * 0.95 / 4000) / stats.norm.pdf(stats.norm.ppf(0.05)) * 0.25
    np.testing.assert_allclose([found.probability_low[0], found.probability_high[0]], exact, atol=error)
    sure = compare({"one": 3.0, "two": 2.0})
    np.testing.assert_allclose(sure.probability_low, sure.probability)
    assert found.probability_low[0] < sure.probability_low[0] - 10 * error  # negative control


def test_prior_probabilities():
    found = compare({"a": 1.0, "b": 1.0, "c": 1.0}, prior={"c": 2.0, "b": 1.0, "a": 1.0})
    np.testing.assert_allclose(found.probability, [0.25, 0.25, 0.5])
    np.testing.assert_allclose(compare({"a": 5.0, "b": 1.0}, prior=[0.0, 1.0]).probability, [0.0, 1.0])


def test_huge_differences_stay_numbers():
    found = compare({"a": -1e6, "b": 0.0})
    np.testing.assert_array_equal(found.probability, [0.0, 1.0])


def test_the_table_says_what_it_holds():
    found = compare({"linear": model(-12.0), "a longer name": model(-10.0)})
    text = str(found)
    lines = text.splitlines()
    assert lines[1].startswith("a longer name")  # the best first
    assert "-10.000" in lines[1]
    assert "-2.000" in lines[2]
    assert "same data" in text
    assert "normalised prior" in text
    assert CAVEAT in text


def test_to_dict_is_json():
    again = json.loads(json.dumps(compare({"a": model(1.0), "b": 2.0}).to_dict()))
    assert again["best"] == "b"
    assert again["models"]["a"]["log_bayes_factor_to_best"] == pytest.approx(-1.0)


def test_a_posterior_compares_itself():
    one, two = model(-10.0), model(-12.0)
    assert one.compare(two).names == ("model 1", "model 2")
    assert one.compare([two, model(-9.0)], names=["a", "b", "c"]).best == "c"
    assert one.compare({"two": two}).names == ("this", "two")
    assert one.compare({"two": two}, names=["one"]).bayes_factor("one", "two")[0] == pytest.approx(2.0)
    assert one.compare(two, prior=[0.0, 1.0]).probability[1] == 1.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: compare({"a": 1.0}), "at least two"),
        (lambda: compare({"a": 1.0, "b": np.nan}), "'b' is nan"),
        (lambda: compare({"a": 1.0, "b": (1.0, -1.0)}), "not negative"),
        (lambda: compare({"a": 1.0, "b": "high"}), "'b' can't be read"),
        (lambda: compare({"a": 1.0, "b": [1, 2, 3]}), "'b' can't be read"),
        (lambda: compare({"a": 1.0, "b": None}), "'b'"),
        (lambda: compare({"a": 1.0, "b": 1.0}, prior=[1.0]), "one probability for each"),
        (lambda: compare({"a": 1.0, "b": 1.0}, prior={"a": 1.0, "x": 1.0}), "'x'"),
        (lambda: compare({"a": 1.0, "b": 1.0}, prior=[-1.0, 2.0]), "one probability for each"),
        (lambda: compare({"a": 1.0, "b": 1.0}).bayes_factor("a", "z"), "no model 'z'"),
        (lambda: model(1.0).compare(model(2.0), names=["a"]), "Give each its own"),
        (lambda: model(1.0).compare(model(2.0), names=["a", "a"]), "Give each its own"),
        (lambda: model(1.0).compare({"this": model(2.0)}), "Two models have the name"),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(ComparisonError, match=words):
        call()


def tagged(log_evidence: float, tag: str | None) -> Posterior:
    """A model whose evaluations carry a tag."""
    x = np.linspace(-2, 2, 30)[:, None]
    return replace(model(log_evidence), evaluations=Evaluations(x, -0.5 * x[:, 0] ** 2, names=["x"], tag=tag))


def test_different_tags_are_refused():
    models = {"a": tagged(1.0, "data 1"), "b": tagged(2.0, "data 2"), "c": tagged(3.0, None), "d": model(0.0)}
    with pytest.raises(ComparisonError, match=r"'a' has 'data 1', 'b' has 'data 2'"):
        compare(models)
    with pytest.raises(ComparisonError, match="different tags"):
        models["a"].compare(models["b"])
    assert compare(models, check_tags=False).best == "c"
    assert compare({name: models[name] for name in "acd"}).best == "c"
    assert compare({"a": tagged(1.0, "data 1"), "b": tagged(2.0, "data 1")}).best == "b"


def test_tags_are_of_one_participant():
    people = {"anna": "anna's data", "ben": "ben's data"}
    table = {name: {who: tagged(i, tag) for who, tag in people.items()} for i, name in enumerate(("one", "two"))}
    assert compare_groups(table).participants == ("anna", "ben")
    table["two"]["ben"] = tagged(1.0, "ben, second session")
    with pytest.raises(ComparisonError, match=r"'one of ben' has 'ben's data', 'two of ben' has 'ben, second session'"):
        compare_groups(table)
    assert compare_groups(table, check_tags=False).participants == ("anna", "ben")


@pytest.mark.parametrize("compact", [False, True])
def test_a_loaded_posterior_still_has_its_tag(tmp_path, compact):
    for tag in ("data 1", "data 2"):
        tagged(1.0, tag).save(tmp_path / f"{tag}.npz", compact=compact)
    models = {tag: load(tmp_path / f"{tag}.npz") for tag in ("data 1", "data 2")}
    assert (models["data 1"].evaluations is None) == compact
    with pytest.raises(ComparisonError, match="different tags"):
        compare(models)


# Groups


def test_everyone_strongly_for_one_model():
    """Each participant counts fully: a Dirichlet of prior plus counts, and the evidence of a Dirichlet-multinomial."""
    logs = np.array([[200.0, 0.0, 0.0]] * 7 + [[0.0, 200.0, 0.0]] * 3)
    found = compare_groups(logs)
    np.testing.assert_allclose(found.alpha, [8.0, 4.0, 1.0])
    np.testing.assert_allclose(found.frequency, np.array([8.0, 4.0, 1.0]) / 13)
    dirichlet = stats.dirichlet([8.0, 4.0, 1.0])
    np.testing.assert_allclose(found.frequency_sd**2, dirichlet.var())
    np.testing.assert_allclose(found.assignment.sum(axis=0), [7, 3, 0], atol=1e-12)
    fit = _variational(logs[None], 1.0)
    exact = 10 * 200.0 + stats.dirichlet_multinomial.logpmf([7, 3, 0], np.ones(3), 10)
    exact -= stats.multinomial.logpmf([7, 3, 0], 10, np.full(3, 1 / 3)) + 10 * np.log(3)  # of one order of participants
    assert fit.bound[0] == pytest.approx(exact)
    assert fit.null[0] == pytest.approx(10 * (200.0 - np.log(3)))


def test_equal_evidences_are_undecided():
    found = compare_groups(np.full((60, 3), -50.0))
    np.testing.assert_allclose(found.alpha, 1 + 60 / 3)
    np.testing.assert_allclose(found.exceedance, 1 / 3)
    assert found.omnibus_risk > 0.95
    np.testing.assert_allclose(found.protected_exceedance, 1 / 3)


def beta_mean(logs: np.ndarray) -> tuple[float, float, float]:
    """Expected frequency of the first of two models, chance that it exceeds 1/2, and log evidence, by integration."""
    top = logs.max(axis=1)
    ratio = np.exp(logs - top[:, None])

    def joint(r: float) -> float:
        return float(np.prod(r * ratio[:, 0] + (1 - r) * ratio[:, 1]))

    whole = quad(joint, 0, 1)[0]
    mean = quad(lambda r: r * joint(r), 0, 1)[0] / whole
    return mean, quad(joint, 0.5, 1)[0] / whole, float(np.log(whole) + top.sum())


@pytest.mark.parametrize("spread", [0.5, 2.0, 6.0])
def test_two_models_by_direct_integration(rng, spread):
    """Variational Bayes keeps participants and frequencies apart: a lower bound, and close where participants speak."""
    logs = rng.normal([0.7 * spread, 0.0], spread, (12, 2))
    mean, above, evidence = beta_mean(logs)
    found = compare_groups(logs)
    fit = _variational(logs[None], 1.0)
    assert fit.bound[0] <= evidence + 1e-9
    assert fit.bound[0] > evidence - {0.5: 2.0, 2.0: 1.0, 6.0: 0.3}[spread]
    exact_risk = 1 / (1 + np.exp(evidence - fit.null[0]))
    assert found.omnibus_risk >= exact_risk - 1e-9
    if spread == 6.0:
        assert found.frequency[0] == pytest.approx(mean, abs=0.02)
        assert found.exceedance[0] == pytest.approx(above, abs=0.05)
    assert fit.null[0] == pytest.approx(float((logsumexp(logs, axis=1) - np.log(2)).sum()))


def test_the_integration_is_right_itself():
    logs = np.array([[300.0, 0.0]] * 5 + [[0.0, 300.0]] * 2)
    mean, above, evidence = beta_mean(logs)
    assert mean == pytest.approx(6 / 9)
    assert above == pytest.approx(stats.beta.sf(0.5, 6, 3))
    assert evidence == pytest.approx(7 * 300 + betaln(6, 3))


def test_exceedance_by_monte_carlo(rng):
    alpha = np.array([5.0, 3.5, 1.0, 0.6])
    draws = rng.dirichlet(alpha, 100_000)
    counted = np.bincount(draws.argmax(axis=1), minlength=4) / len(draws)
    found = exceedance_probabilities(alpha[None])[0]
    np.testing.assert_array_less(np.abs(found - counted), 4 * np.sqrt(found * (1 - found) / len(draws)) + 1e-4)
    other = exceedance_probabilities(alpha[None, ::-1])[0]
    assert np.abs(other - counted).max() > 0.1  # negative control
    two = exceedance_probabilities(np.array([[6.0, 3.0], [40.0, 80.0]]))[:, 0]
    np.testing.assert_allclose(two, stats.beta.sf(0.5, [6.0, 40.0], [3.0, 80.0]), atol=1e-6)


def test_protected_exceedance_is_between_exceedance_and_chance(rng):
    found = compare_groups(rng.normal([1.0, 0.0, 0.0], 2.0, (15, 3)))
    low, high = np.minimum(found.exceedance, 1 / 3), np.maximum(found.exceedance, 1 / 3)
    assert ((found.protected_exceedance >= low) & (found.protected_exceedance <= high)).all()
    assert found.protected_exceedance.sum() == pytest.approx(1.0)
    mixed = (1 - found.omnibus_risk) * found.exceedance + found.omnibus_risk / 3
    np.testing.assert_allclose(found.protected_exceedance, mixed)


def test_uncertain_evidences_decide_less():
    logs = np.array([[4.0, 0.0]] * 10)
    sure = compare_groups(logs)
    unsure = compare_groups(logs, sds=5.0, rng=0)
    assert unsure.frequency[0] < sure.frequency[0]
    assert unsure.frequency_sd[0] > sure.frequency_sd[0]
    assert unsure.exceedance_sd[0] > 0 == sure.exceedance_sd[0]
    assert sure.exceedance[0] > 0.999 > unsure.exceedance[0]
    tiny = compare_groups(logs, sds=np.full((10, 2), 1e-6), rng=0)
    np.testing.assert_allclose(tiny.frequency, sure.frequency, atol=1e-5)


def test_tables_dicts_and_data_frames_agree(rng):
    logs = rng.normal(size=(6, 2))
    table = pandas.DataFrame(logs, columns=["A", "B"], index=[f"p{i}" for i in range(6)])
    nested = {name: {who: model(table.loc[who, name], 0.0) for who in table.index} for name in table.columns}
    pairs = {name: {who: (table.loc[who, name], 0.0) for who in table.index} for name in table.columns}
    found = [compare_groups(given) for given in (table, nested, pairs)]
    named = compare_groups(logs.tolist(), models=["A", "B"], participants=list(table.index))
    for other in (*found, named):
        assert other.models == ("A", "B")
        assert other.participants == tuple(table.index)
        np.testing.assert_allclose(other.alpha, found[0].alpha, rtol=1e-12)
    assert compare_groups(logs).models == ("model 1", "model 2")
    assert compare_groups(logs.tolist(), models=["A", "B"]).participants[0] == "participant 1"


def test_posteriors_bring_their_sds(rng):
    logs = rng.normal([1.0, 0.0], 1.0, (5, 2))
    nested = {name: {i: model(logs[i, k], 2.0) for i in range(5)} for k, name in enumerate("AB")}
    np.testing.assert_allclose(
        compare_groups(nested, rng=3).frequency, compare_groups(logs, sds=np.full((5, 2), 2.0), rng=3).frequency
    )


def test_the_group_table_prints_and_is_json(rng):
    found = compare_groups(rng.normal(size=(4, 2)), models=["good", "bad"])
    assert "omnibus risk" in str(found)
    assert "same data" in str(found)
    again = json.loads(json.dumps(found.to_dict()))
    assert set(again["models"]) == {"good", "bad"}
    assert sum(again["assignment"]["participant 1"].values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: compare_groups([[1.0], [2.0]]), "at least two"),
        (lambda: compare_groups([1.0, 2.0]), "shape"),
        (lambda: compare_groups([["a", "b"]]), "can't be read"),
        (lambda: compare_groups([[1.0, np.nan]]), "'participant 1' and 'model 2'"),
        (lambda: compare_groups([[1.0, 2.0]], sds=[[0.1, -0.1]]), "'model 2'"),
        (lambda: compare_groups([[1.0, 2.0]], sds=[0.1, 0.1]), "one for each"),
        (lambda: compare_groups([[1.0, 2.0]], models=["a"]), "models"),
        (lambda: compare_groups([[1.0, 2.0]], models=["a", "a"]), "own name"),
        (lambda: compare_groups([[1.0, 2.0]], prior_count=0.0), "prior_count"),
        (lambda: compare_groups({"a": {1: 1.0}, "b": {2: 1.0}}), "no evidence for '2'"),
        (lambda: compare_groups({"a": {}, "b": {}}), "anyone"),
        (lambda: compare_groups({"a": {1: 1.0}}), "at least two"),
        (lambda: compare_groups({"a": 1.0, "b": 2.0}), "no dict"),
        (lambda: compare_groups({"a": {1: 1.0}, "b": {1: "x"}}), "'b' for '1'"),
        (lambda: compare_groups({"a": {1: 1.0}, "b": {1: 1.0}}, sds=[[1, 1]]), "its own names"),
    ],
)
def test_groups_that_are_refused(call, words):
    with pytest.raises(ComparisonError, match=words):
        call()


def test_tables_whose_labels_differ_are_refused():
    people, models = ["anna", "ben", "carl"], ["line", "curve"]
    logs = pandas.DataFrame(np.arange(6.0).reshape(3, 2), index=people, columns=models)
    sds = pandas.DataFrame(np.full((3, 2), 0.1), index=people, columns=models)
    assert compare_groups(logs, sds).participants == tuple(people)
    with pytest.raises(ComparisonError, match="The participants of the log evidences are not those of their sds"):
        compare_groups(logs, sds.iloc[::-1])
    with pytest.raises(ComparisonError, match="The models of the log evidences are not those of their sds"):
        compare_groups(logs, sds[["curve", "line"]])
    assert compare_groups(logs, sds.iloc[::-1].to_numpy()).participants == tuple(people)


def test_a_prior_in_a_series_goes_by_name():
    models = {"a": 1.0, "b": 1.0}
    found = compare(models, prior=pandas.Series({"b": 3.0, "a": 1.0}))
    np.testing.assert_allclose(found.probability, [0.25, 0.75])
    np.testing.assert_allclose(compare(models, prior=pandas.Series([1.0, 3.0])).probability, [0.25, 0.75])
    with pytest.raises(ComparisonError, match="prior is for 'b' and 'c'"):
        compare(models, prior=pandas.Series({"b": 3.0, "c": 1.0}))
