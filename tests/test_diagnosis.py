"""Every finding has data that trigger it and data that do not, and the verdict is told wherever a fit is told."""

from __future__ import annotations

import json
import warnings
from dataclasses import fields, replace

import numpy as np
import pytest

import vsbq
from command_line import call, write_csv
from steps.toy import Known, one_normal
from vsbq.analysis.refits import refit
from vsbq.errors import VsbqError, VsbqWarning
from vsbq.history import NoiseFinding
from vsbq.numerics.mixture import Mixture
from vsbq.posterior.diagnosis import THRESHOLDS, Diagnosis, Finding, Thresholds, checks, diagnose, judged
from vsbq.posterior.diagnosis.checks import together
from vsbq.posterior.diagnosis.distance import chance_distance, draws_distance, marginal_distance, reweighted
from vsbq.posterior.diagnosis.edges import Edge, edges
from vsbq.posterior.diagnosis.expected import Expected, expected_error
from vsbq.posterior.diagnosis.measures import Rows, View, distinct, held_out_distance, ignored, sister_distance
from vsbq.posterior.diagnosis.thresholds import ALONE, Limit


def evaluations(n=300, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2)) * rng.uniform(0, 2.5, (n, 1))
    return x, -0.5 * (x**2).sum(axis=1) - np.log(2 * np.pi)


@pytest.fixture(scope="module")
def post():
    return vsbq.fit(*evaluations(), names=["a", "b"], rng=1, progress=False)


def level(post, name):
    return diagnose(replace(post, diagnosis=None)).finding(name).level


def message(post, name):
    return diagnose(replace(post, diagnosis=None)).finding(name).message


def with_evidence(post, **parts):
    return replace(post, refined=replace(post.refined, evidence=post.refined.evidence._replace(**parts)))


def with_history(post, part, **changes):
    return replace(post, history=post.history._replace(**{part: getattr(post.history, part)._replace(**changes)}))


def with_values(post, rows, values):
    changed = np.array(post.evaluations.log_density)
    changed[rows] = values
    new = vsbq.Evaluations(post.evaluations.points, changed, names=post.names, check_sign=False)
    return replace(post, evaluations=new)


# The verdict


def test_a_good_fit_is_trusted_and_says_nothing(post):
    assert post.verdict == "trusted"
    assert post.diagnose().reasons == ()
    assert {finding.level for finding in post.diagnose().findings} == {"trusted"}
    assert all(finding.remedy == "" for finding in post.diagnose().findings)


def test_the_worst_finding_decides_and_reasons_are_in_order():
    words = [("a", "trusted"), ("b", "doubtful"), ("c", "rejected"), ("d", "doubtful")]
    found = Diagnosis.of(Finding(name, level, 1.0, 2.0, f"{name} it is.", "Do.") for name, level in words)
    assert found.verdict == "rejected"
    assert [finding.name for finding in found.reasons] == ["c", "b", "d"]
    assert found.headline == "The fit is rejected. c it is. b it is."
    assert str(found).splitlines()[0] == "Verdict: rejected"
    assert "without objection: a" in str(found)
    assert found.to_dict()["findings"][1]["level"] == "doubtful"
    better = found.with_findings([Finding("c", "trusted", 0.0, 2.0, "Fine.")])
    assert better.verdict == "doubtful"
    with pytest.raises(KeyError):
        found.finding("e")
    with pytest.raises(ValueError, match="A level is one of"):
        Diagnosis.of([Finding("a", "fine", None, None, "")])


def test_nothing_measured_is_a_doubt():
    assert Diagnosis.of([]).verdict == "doubtful"
    assert Limit(1.0, 2.0).level(None) == "doubtful"
    assert Limit(1.0, 2.0).level(np.nan) == "doubtful"


@pytest.mark.parametrize(
    ("limit", "numbers"), [(Limit(1.0, 2.0), (0.5, 1.5, 2.5)), (Limit(0.2, 0.1), (0.5, 0.15, 0.05))]
)
def test_limits_work_both_ways(limit, numbers):
    assert [limit.level(number) for number in numbers] == ["trusted", "doubtful", "rejected"]
    assert [limit.threshold(number) for number in numbers] == [limit.doubtful, limit.doubtful, limit.rejected]


def test_thresholds_are_plain_numbers():
    for one in fields(THRESHOLDS):
        if one.name == "rejected":
            assert THRESHOLDS.rejected >= 1
        elif one.name in ALONE:
            doubtful, rejected = getattr(THRESHOLDS, one.name)
            assert 0 < doubtful < rejected
        else:
            usual, whole, alone = getattr(THRESHOLDS, one.name)
            assert whole <= alone < usual if one.name == "mixture" else usual < alone <= max(whole, alone)
            assert THRESHOLDS.limit(one.name).level(usual) == "trusted"


@pytest.mark.parametrize("limit", [Limit(5.0, 1000.0, 1.0, 100.0), Limit(0.05, 0.001, 1.0, 0.01)])
def test_shares_go_from_what_is_usual_to_a_doubt(limit):
    sign = 1.0 if limit.whole > 1 else -1.0
    assert [limit.share(10.0 ** (sign * power)) for power in (-1, 0, 1, 2, 3)] == pytest.approx([0, 0, 0.5, 1, 1.5])
    assert limit.share(None) == limit.share(np.nan) == 0.0
    assert Limit(5.0, np.inf, 1.0, np.inf).share(1e9) == 0.0


def test_several_numbers_near_their_limits_are_a_doubt_together():
    limits = Thresholds(open=(0.1, 1.0, 9.0), evidence=(0.1, 1.0, 9.0), beyond=(0.1, 1.0, 9.0), rejected=1.5)
    found = [judged(name, 0.5, limits.limit(name), "") for name in ("open", "evidence")]
    assert {one.level for one in found} == {"trusted"}
    both = together(found, limits)
    assert both.level == "doubtful"
    assert both.number == pytest.approx(2 * np.log10(5))
    assert "Together the checks use 140%" in both.message
    assert together(found[:1], limits).level == "trusted"
    third = judged("beyond", 0.5, limits.limit("beyond"), "")
    assert together([*found, third], limits).level == "rejected"


def test_causes_are_the_checks_that_most_of_the_sum_is_from(post):
    poor = diagnose(with_evidence(post, sides=0.9 * doubtful("beyond"), held_out_sd=100.0))
    assert "together" in [finding.name for finding in poor.reasons]
    assert "evidence" in poor.causes
    assert "noise" not in poor.causes
    assert post.diagnose().causes == ()


# Each finding


def doubtful(name):
    """From where on a number is a doubt by itself, whatever was chosen."""
    return THRESHOLDS.limit(name).doubtful


OVER, UNDER = 1.01, 0.9

MEASURES = {
    "sisters": lambda number: ("sister_distance", lambda view: number),
    "held out": lambda number: ("held_out_distance", lambda view: number),
    "open": lambda number: ("expected_error", lambda view: Expected(number, 0.0, 0.0)),
    "ignored": lambda number: ("ignored", lambda view, rows: (number, np.array([3]))),
    "cut off": lambda number: ("edges", lambda view: [Edge(0, 1, number, 1.0, 2.0)]),
}


@pytest.mark.parametrize("name", MEASURES)
def test_what_is_measured_is_judged(name, post, monkeypatch):
    for factor, wanted in ((OVER, "doubtful"), (UNDER, "trusted")):
        monkeypatch.setattr(checks, *MEASURES[name](factor * doubtful(name)))
        assert level(post, name) == wanted
        assert bool(diagnose(post).finding(name).remedy) == (wanted == "doubtful")


def test_unsure(post, monkeypatch):
    for factor, wanted in ((OVER, "doubtful"), (UNDER, "trusted")):
        number = factor * doubtful("unsure")
        monkeypatch.setattr(View, "unsure_share", lambda view, number=number: number)
        assert level(post, "unsure") == wanted


def test_beyond(post):
    assert level(with_evidence(post, sides=UNDER * doubtful("beyond")), "beyond") == "trusted"
    assert level(with_evidence(post, sides=OVER * doubtful("beyond")), "beyond") == "doubtful"


def test_support(post):
    under, over = (-np.log1p(-factor * doubtful("support")) for factor in (UNDER, OVER))
    assert level(with_evidence(post, guessed=under), "support") == "trusted"
    assert level(with_evidence(post, guessed=over), "support") == "doubtful"
    outside = with_history(post, "refinement", share_outside=OVER * doubtful("support"))
    assert level(outside, "support") == "doubtful"
    assert "30.0% of the probability" in message(with_history(post, "refinement", share_outside=0.3), "support")


def test_around(post):
    assert level(with_evidence(post, untrusted=np.log1p(UNDER * doubtful("around"))), "around") == "trusted"
    assert level(with_evidence(post, untrusted=np.log1p(OVER * doubtful("around"))), "around") == "doubtful"


def test_surrogate(post):
    assert level(with_history(post, "surrogate", held_out=(1.0, 1.2)), "surrogate") == "trusted"
    over = OVER * doubtful("surrogate")
    assert level(with_history(post, "surrogate", held_out=(over, over)), "surrogate") == "doubtful"
    assert level(with_history(post, "surrogate", held_out=()), "surrogate") == "trusted"  # tested by its own account
    untested = replace(post, surrogate=replace(post.surrogate, tested=0.0))
    assert level(with_history(untested, "surrogate", held_out=()), "surrogate") == "doubtful"


def test_mixture_and_bound(post):
    assert level(post, "mixture") == level(post, "bound") == "trusted"
    assert level(with_history(post, "refinement", effective_share=doubtful("mixture") / OVER), "mixture") == "doubtful"
    low = post.elbo_estimate._replace(value=post.elbo_estimate.value - OVER * doubtful("bound"))
    assert level(replace(post, elbo_estimate=low), "bound") == "doubtful"


def test_evidence_names_its_main_part(post):
    assert level(with_evidence(post, held_out_sd=UNDER * doubtful("evidence")), "evidence") == "trusted"
    bad = with_evidence(post, held_out_sd=OVER * doubtful("evidence"))
    assert level(bad, "evidence") == "doubtful"
    assert "single regions of the evaluations" in message(bad, "evidence")
    assert diagnose(with_evidence(post, held_out_sd=1e9)).verdict == "rejected"


def test_ignored_names_the_rows(post):
    row = int(np.argsort(-post.evaluations.log_density)[40])
    bad = with_values(post, [row], post.evaluations.log_density.max() + 20.0 + doubtful("ignored"))
    assert level(bad, "ignored") == "doubtful"
    assert f"(row {row})" in message(bad, "ignored")


def test_too_few(post):
    assert level(replace(post, evaluations=post.evaluations.take(np.arange(6))), "too few") != "trusted"
    assert "too few to contradict" in message(replace(post, evaluations=post.evaluations.take(np.arange(6))), "too few")


def test_thousands_of_evaluations_at_the_mode_do_not_hide_the_others(post):
    before = diagnose(post).finding("too few").number
    seen = post.evaluations
    best = int(np.argmax(seen.log_density))
    piled = seen.take(np.concatenate([np.arange(len(seen)), np.full(5000, best)]))
    assert diagnose(replace(post, evaluations=piled)).finding("too few").number == before


def test_modes(post):
    half = np.log([0.5, 0.5])
    apart = Mixture(half, np.array([[-1.5, 0.0], [1.5, 0.0]]), np.stack([0.3 * np.eye(2)] * 2))
    two = replace(post, mixture=apart)
    assert "2 separate regions" in message(two, "modes")
    assert level(two, "modes") == "trusted"
    one_sided = two.evaluations.take(np.flatnonzero(two.evaluations.points[:, 0] < 0))
    assert level(replace(two, evaluations=one_sided), "modes") != "trusted"


def test_noise(post):
    said = replace(
        post, history=post.history._replace(noise=NoiseFinding("rescaled", 1.0, OVER * doubtful("noise"), 9))
    )
    assert level(said, "noise") == "doubtful"
    said = replace(post, history=post.history._replace(noise=NoiseFinding("rescaled", 1.0, 1.5, 9)))
    assert level(said, "noise") == "trusted"
    fine = replace(post, history=post.history._replace(noise=NoiseFinding("given", 1.0, 1.0, 9)))
    with pytest.raises(KeyError):
        diagnose(fine).finding("noise")


def test_input(post):
    rows = np.arange(len(post.evaluations))
    flat = with_values(post, rows, -0.01 + post.evaluations.log_density / 500)
    assert level(flat, "input") == "doubtful"
    assert "mean square" in message(flat, "input")


def test_refinement_that_found_nothing_is_rejected(post):
    lost = with_history(replace(post, refined=None), "refinement", method="none")
    assert level(lost, "refinement") == "rejected"
    assert level(with_history(replace(post, refined=None), "refinement"), "refinement") == "doubtful"


def test_without_a_record_nothing_is_known(post):
    found = diagnose(replace(post, surrogate=None, refined=None, evaluations=None))
    assert found.verdict == "doubtful"
    assert found.findings[0].name == "record"


# What is measured


class Sisters(Known):
    """Models that disagree along the first coordinate."""

    def means(self, u):
        return np.stack([self.mean(u) + self.turn_by * u[:, 0], self.mean(u) - self.turn_by * u[:, 0]])

    def changes(self, u):
        return np.stack([self.turn_by * u[:, 0], np.zeros(len(u))])


def view_of(model, draws):
    even = np.full(len(draws), 1.0 / len(draws))
    return View(model, None, draws, draws, draws, even)


def test_sisters_that_agree_and_disagree(rng):
    draws = rng.standard_normal((2000, 2))
    model = Sisters(lambda u: -0.5 * (u**2).sum(axis=1))
    for by, expected in ((0.0, 0.0), (0.5, 0.5 * 0.3829)):  # total variation of normals one sd apart, in one of two
        object.__setattr__(model, "turn_by", by)
        assert sister_distance(view_of(model, draws)) == pytest.approx(expected, abs=0.04)
    object.__setattr__(model, "turn_by", 0.5)
    assert held_out_distance(view_of(model, draws)) == pytest.approx(0.5 * 0.1974, abs=0.03)
    alone = Known(lambda u: u[:, 0])
    assert sister_distance(view_of(alone, draws)) is None
    assert held_out_distance(view_of(alone, draws)) is None


def test_mass_where_the_surrogate_is_unsure(rng):
    draws = rng.standard_normal((2000, 2))
    model = Known(lambda u: u[:, 0], lambda u: np.where(u[:, 0] > 0, 1.0, 0.01))
    assert view_of(model, draws).unsure_share() == pytest.approx(0.5, abs=0.05)


class Open(Known):
    """What is open of it are multiples of functions."""

    def covariance(self, a, b):
        return np.zeros((len(a), len(b)))

    def trends(self, u):
        return np.stack([function(u) for function in self.functions])


def test_the_expected_error_is_that_of_open_functions(rng):
    draws = rng.standard_normal((2000, 2))
    model = Open(lambda u: -0.5 * (u**2).sum(axis=1))
    for functions, wanted in (
        ([lambda u: 0.0 * u[:, 0]], Expected(0.0, 0.0, 0.0)),
        ([lambda u: 0.0 * u[:, 0] + 0.7], Expected(0.7, 0.0, 0.0)),
        # A mean that moves by a tenth of a sd: the variance of each cell is the same on average, which is a bound.
        ([lambda u: 0.1 * u[:, 0]], Expected(0.0, 0.5 * 0.1 * np.sqrt(2 / np.pi) / 2, 0.1**2 / 4)),
    ):
        object.__setattr__(model, "functions", functions)
        found = expected_error(view_of(model, draws))
        assert found.evidence == pytest.approx(wanted.evidence, abs=0.01)  # 0.1 over the root of 500 draws, twice
        assert found.marginals == pytest.approx(wanted.marginals, abs=0.005)
        assert found.moments == pytest.approx(wanted.moments, rel=0.3, abs=1e-9)
    assert Expected(0.5, 0.1, 0.125 / 16).worst == pytest.approx(0.5)
    assert Expected(0.0, 0.0, 0.5).worst == pytest.approx(2.0)


@pytest.mark.parametrize("side", [-1, 1])
def test_a_cut_is_seen_on_its_side_only(side, rng):
    draws = rng.standard_normal((40_000, 2))
    cut = draws[side * draws[:, 1] < 1.0]
    model = Known(lambda u: u[:, 0], lambda u: np.where(side * u[:, 1] > 1.0, 9.0, 0.0))
    found = {(edge.parameter, edge.side): edge.cut for edge in edges(view_of(model, cut))}
    assert found.pop((1, side)) == pytest.approx(0.6, abs=0.15)  # the density at one sd over its peak
    assert max(found.values()) == 0.0
    whole = edges(view_of(model, draws))
    assert max(edge.height for edge in whole) < 0.05


def test_a_high_edge_beyond_which_the_surrogate_is_believed_is_no_cut(rng):
    draws = rng.standard_normal((40_000, 2))
    known = Known(lambda u: u[:, 0])
    assert max(edge.cut for edge in edges(view_of(known, draws[draws[:, 0] < 1.0]))) == 0.0


def test_steps_of_finite_differences_count_once(post, rng):
    view = View.of(post)
    rows = Rows.of(post)
    doubled = Rows(*(np.concatenate([column, column]) for column in rows))
    close = doubled._replace(points=doubled.points + 1e-9 * rng.standard_normal(doubled.points.shape))
    assert distinct(view.model, view.draws, close) <= distinct(view.model, view.draws, rows) + 2


def test_noise_excuses_what_the_surrogate_does_not_follow(post):
    view, rows = View.of(post), Rows.of(post)
    high = np.argmax(rows.values)
    lifted = rows._replace(values=np.where(np.arange(len(rows.values)) == high, rows.values + 9.0, rows.values))
    assert ignored(view, lifted)[0] > 5.0
    assert ignored(view, lifted._replace(sd=np.full(len(rows.sd), 5.0)))[0] == 0.0


def test_distances_of_draws(rng):
    a, b = rng.standard_normal((2, 4000, 3))
    assert draws_distance(a, b) < 0.06
    assert draws_distance(a, b + np.array([1.0, 0.0, 0.0])) == pytest.approx(0.3829 / 3, abs=0.05)
    even = reweighted(np.zeros(4000))
    assert marginal_distance(a, even, even) == 0.0
    few = [marginal_distance(a, even, _chosen(rng, 200)) for _ in range(20)]
    assert np.mean(few) == pytest.approx(chance_distance(200), rel=0.15)


def _chosen(rng, count):
    weights = np.zeros(4000)
    weights[rng.choice(4000, count, replace=False)] = 1.0 / count
    return weights


# Where it is told


def test_a_poor_fit_warns_with_verdict_reasons_and_remedy():
    x, _ = evaluations(40)
    x[12:] *= 8 / np.linalg.norm(x[12:], axis=1, keepdims=True)
    with pytest.warns(VsbqWarning, match=r"^The fit is (doubtful|rejected)\. .*post\.diagnose\(\) tells more\.$"):
        poor = vsbq.fit(x, -0.5 * (x**2).sum(axis=1), rng=1, progress=False)
    assert poor.verdict != "trusted"
    assert poor.verdict in repr(poor)
    assert f"verdict: {poor.verdict}" in str(poor.summary())


def test_it_is_part_of_files(post, tmp_path):
    assert vsbq.load(post.save(tmp_path / "whole.npz")).diagnosis == post.diagnosis
    assert vsbq.load(post.save(tmp_path / "compact.npz", compact=True)).verdict == "trusted"
    earlier = vsbq.load(replace(post, diagnosis=None).save(tmp_path / "earlier.npz"))
    assert earlier.diagnosis is None
    again = earlier.diagnose()
    assert again.verdict == "trusted"
    assert [finding.name for finding in again.findings] == [finding.name for finding in post.diagnosis.findings]


def test_a_file_with_an_unknown_verdict_is_refused(post, tmp_path):
    with pytest.raises(vsbq.PosteriorFileError, match="a level that does not exist"):
        replace(post, diagnosis=Diagnosis("perfect", ())).save(tmp_path / "odd.npz")


def test_it_is_the_first_line_of_the_report(post, tmp_path):
    page = post.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Verdict: trusted." in page[page.index("</h1>") : page.index("</h1>") + 300]
    finding = Finding("cut off", "rejected", 0.5, 0.3, "It ends <too> early.", "Go on.")
    bad = replace(post, diagnosis=Diagnosis.of([finding]))
    page = bad.report(tmp_path / "bad.html").read_text(encoding="utf-8")
    start = page[page.index("</h1>") : page.index("</h1>") + 500]
    assert "Verdict: rejected." in start
    assert "It ends &lt;too&gt; early." in start


def test_the_command_line_has_it_and_an_exit_code_of_its_own(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(-4, 4, (30, 6))
    table = write_csv(tmp_path / "few.csv", [*"abcdef", "lp"], x, -0.5 * (x**2 * [1, 4, 9, 16, 25, 36]).sum(axis=1))
    code, said, _ = call("fit", table, "-o", tmp_path / "out", "--seed", 1, "--json")
    assert code == 4
    assert json.loads(said)["verdict"] == "rejected"
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["verdict"] == "rejected"
    assert {"name", "level", "number", "threshold", "message", "remedy"} == set(summary["diagnosis"][0])
    assert "verdict: rejected" in (tmp_path / "out" / "fit.log").read_text(encoding="utf-8")


# Refits


def test_refits_of_a_good_fit_agree(post):
    found = post.diagnose(refits=2, rng=3)
    assert found.verdict == "trusted"
    assert found.finding("refits").number < 0.06
    assert found.finding("refit evidence").number < 0.05
    assert post.diagnosis.findings == found.findings[: len(post.diagnosis.findings)]
    with pytest.raises(ValueError, match="at least 0"):
        post.diagnose(refits=-1)


def test_refits_that_disagree_are_told(post):
    moved = replace(post.refined, points=post.refined.points + 2.0)
    wrong = replace(post, refined=moved)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = wrong.diagnose(refits=1, rng=3)
    assert found.finding("refits").level == "rejected"
    assert "Fitted again with another seed" in found.finding("refits").message


def test_refits_leave_out_a_fifth_and_each_run():
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.normal(size=(60, 2)) * np.exp(-np.linspace(-1.5, 4, 60))[:, None] for _ in range(2)])
    post = vsbq.fit(x, -0.5 * (x**2).sum(axis=1), rng=1, progress=False)
    ways = [one.how for one in refit(post, 4, 0)]
    assert ways[:2] == ["with another seed", "without a fifth of the evaluations"]
    assert [way.startswith("without the run in rows") for way in ways[2:]] == [True, True]


def test_refits_need_evaluations(post):
    with pytest.raises(VsbqError, match="no evaluations of its own"):
        replace(post, evaluations=None).diagnose(refits=1)


def test_one_component_is_one_mode(post):
    assert "one region" in message(replace(post, mixture=one_normal([0, 0], [1, 1])), "modes")


# Pictures


def test_pictures_show_every_finding(post, tmp_path):
    figure = post.plot_diagnosis()
    assert figure.get_suptitle() == "Verdict: trusted"
    assert len(figure.axes) == 7  # six, and an axis for the evaluations
    shown = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert set(shown) <= {finding.name for finding in post.diagnosis.findings}
    figure.savefig(tmp_path / "diagnosis.png", dpi=40)
    assert len(replace(post, refined=None).plot_diagnosis().axes) == 7


def test_without_surrogate_the_findings_are_shown_alone(post):
    compact = replace(post, surrogate=None, refined=None, evaluations=None)
    assert len(compact.plot_diagnosis().axes) == 1
