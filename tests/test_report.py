"""The report: everything is on the page, nothing of it is code, and what is missing is said."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from datetime import date
from html import escape
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import norm

import vsbq
from test_corner import by_hand
from vsbq.data.bounds import Bounds
from vsbq.history import Evidence, History, NoiseFinding, RefinedFit, SurrogateFit, Trimmed, VariationalFit
from vsbq.markup import Markup, element, joined, readable, shortened, table
from vsbq.numerics.mixture import Mixture
from vsbq.posterior import Posterior
from vsbq.posterior.modes import separate_modes
from vsbq.report import digits, write_report
from vsbq.report.curves import marginal_curve
from vsbq.report.densities import SHARES, middles, surface
from vsbq.report.digits import Digits, ticks
from vsbq.report.numbers import Numbers, Support
from vsbq.report.pictures import Picture, _drawable
from vsbq.report.process import ERRORS, _errors
from vsbq.report.repeat import fingerprint
from vsbq.settings import Steps
from vsbq.steps.mixture.policy import VariationalMixture
from vsbq.steps.refine import Refined
from vsbq.steps.surrogate.fit import SparseGP

VOID = {"meta", "img", "br", "hr"}
NASTY = (
    "<script>alert(1)</script>",
    'x" onload="alert(2)',
    "&amp; already",
    "a" * 300,
    "漢字の名前",
    "line\nbreak\x00\x1b",
    r"$\alpha_{\rm max}$",
    "100 $ each",
    "مرحبا",
    "\ud800half",
)


class Page(HTMLParser):
    """A page taken apart: elements with their attributes, the text, ids, and whether every element is closed."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.source = source
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join("".join(self.text).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def page_of(posterior: Posterior, tmp_path, **options) -> Page:
    source = write_report(posterior, tmp_path / "page.html", overwrite=True, **options).read_text(encoding="utf-8")
    page = Page(source)
    assert page.open == []
    return page


def history(method: str = "importance") -> History:
    return History(
        Trimmed(given=500, kept=420, trimmed=60, merged=20, zero_density=7, at_edge=3),
        SurrogateFit(321.5, (300.0, 321.5), 123, 1e-10, 0.034, 0.25, 2, True),
        VariationalFit((("best points", -3.25), ("high-density region", -3.5)), 17),
        {"trim": 0.01, "surrogate": 12.34, "mixture": 200.0, "refinement": 1.5},
        "9.8.7",
        RefinedFit(method, 0.31, 0.87, 0.0123, 4),
    )


def with_history(d: int = 2, method: str = "importance", **options) -> Posterior:
    return replace(by_hand(d, **options), history=history(method))


@pytest.fixture
def no_corner(monkeypatch) -> None:
    """The corner plot takes most of the time: tests of everything else do without."""
    monkeypatch.setattr("vsbq.report.page.corner_picture", lambda _: Picture.none("left out in this test"))


@pytest.fixture(scope="module")
def fitted() -> Posterior:
    return real_fit()


def real_fit() -> Posterior:
    """A real fit of three parameters, bounded and noisy, which is refined."""
    rng = np.random.default_rng(0)
    points = rng.normal([0.5, 2.0, 0.0], [0.2, 1.0, 1.0], (400, 3))
    points = points[((points[:, :2] > 0) & (points[:, :2] < [1.0, 9.0])).all(axis=1)]
    values = -0.5 * (((points - [0.5, 2.0, 0.0]) / [0.1, 0.6, 0.8]) ** 2).sum(axis=1) + 3.0
    settings = Steps(surrogate=SparseGP(inducing_per_dimension=20), mixture=VariationalMixture(max_components=4))
    return vsbq.fit(
        points,
        values + 0.05 * rng.standard_normal(len(values)),
        log_density_sd=0.05,
        bounds=[(0.0, 1.0), (0.0, None), None],
        names=["lapse", "slope", "bias"],
        settings=settings,
        rng=1,
        progress=False,
    )


# The page


def test_a_real_fit_has_every_section(fitted, tmp_path):
    page = page_of(fitted, tmp_path, title="My fit")
    headings = [tag for tag, _ in page.elements if re.fullmatch(r"h\d", tag)]
    assert headings.count("h1") == 1
    assert headings[0] == "h1"
    assert all(int(b[1]) - int(a[1]) <= 1 for a, b in pairwise(headings))
    links = [attributes["href"] for attributes in page.all("a")]
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    doubts = page.source.count(">See the picture<")
    assert len(links) == 11 + doubts  # to the content, its six sections, and two figures that enlarge and close
    assert {link.removeprefix("#") for link in links} <= set(ids)
    assert len(ids) == len(set(ids))
    sections = [attributes["id"] for attributes in page.all("section")]
    assert sections == ["posterior", "evidence", "checks", "fit", "input", "repeat"]
    for words in ("My fit", "3 parameters", f"{len(fitted.evaluations)} evaluations", "normalised prior", "importance"):
        assert words in page.words
    for missing in ("not recorded", "not in this file", "could not be drawn", "nan"):
        assert missing not in page.words
    assert "random numbers (rng)1" in page.words
    assert fitted.history.settings == (
        "surrogate.inducing_per_dimension = 20 (default 150)",
        "mixture.max_components = 4 (default 30)",
    )
    assert all(line in page.words for line in fitted.history.settings)


@pytest.mark.usefixtures("no_corner")
def test_older_posteriors_say_that_nothing_is_known_of_the_fit(fitted, tmp_path):
    older = replace(fitted, history=fitted.history._replace(rng=None, settings=None))
    page = page_of(older, tmp_path)
    assert "random numbers (rng)not recorded" in page.words
    assert "The settings were not recorded" in page.words


@pytest.mark.usefixtures("no_corner")
def test_the_numbers_are_those_of_the_posterior(fitted, tmp_path):
    page = page_of(fitted, tmp_path)
    summary = fitted.summary()
    assert f"{summary.mean[1]:.3f}" in page.words
    assert f"{summary.high[1]:.3f}" in page.words
    card = re.search(r"log evidence\s*(−?\d+\.(\d+))\s±\s(\d+\.\d+)", page.words)
    half = 0.5 * 10.0 ** -len(card[2])  # of the last digit
    assert float(card[1].replace("−", "-")) == pytest.approx(fitted.log_evidence, abs=1.001 * half, rel=0)
    assert float(card[3]) == pytest.approx(fitted.log_evidence_sd, abs=1.001 * half, rel=0)
    assert 10 <= float(card[3]) / (2 * half) < 100  # two digits of the standard deviation
    numbers = Numbers.of(fitted)
    np.testing.assert_allclose(numbers.mean, fitted.mean())
    np.testing.assert_allclose(numbers.quantiles[[0, 2, 4]], fitted.quantile([0.05, 0.5, 0.95]))
    sd = np.sqrt(np.diagonal(fitted.cov()))
    np.testing.assert_allclose(numbers.correlation, fitted.cov() / np.outer(sd, sd), atol=1e-12)
    best = fitted.evaluations.points[np.argmax(fitted.evaluations.log_density)]
    assert np.array_equal(numbers.best, best)


def test_figures_are_inside_and_described(fitted, tmp_path):
    page = page_of(fitted, tmp_path)
    images = page.all("img")
    assert len(images) == 2
    assert images[0]["src"].startswith("data:image/png;base64,")
    assert "lapse, slope, bias" in images[0]["alt"]
    assert "correlation" in images[0]["alt"]
    assert images[1]["alt"].startswith("Pictures of the checks.")
    curves = page.all("svg")
    assert len(curves) == 3
    assert all(curve["role"] == "img" and "median" in curve["aria-label"] for curve in curves)


def test_the_verdict_comes_first_then_the_parameters_and_the_corner_plot(fitted, tmp_path):
    page = page_of(fitted, tmp_path)
    places = [page.source.index(words) for words in ("<h1", "Verdict:", 'aria-label="Summary', 'id="corner"')]
    assert places == sorted(places)
    assert places[-1] < page.source.index("Each parameter by itself") < page.source.index('id="evidence"')


@pytest.mark.parametrize("d", [1, 2, 5])
def test_any_number_of_parameters(d, tmp_path):
    page = page_of(with_history(d), tmp_path)
    assert len(page.all("svg")) == d
    assert len(page.all("img")) == 2
    assert ("Correlations" in page.words) == (d > 1)


def test_twenty_parameters_without_the_corner_plot(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.style", None)
    page = page_of(with_history(20), tmp_path)
    assert len(page.all("svg")) == 20
    assert page.all("img") == []
    assert 'pip install "vsbq[plot]"' in page.words


@pytest.mark.usefixtures("no_corner")
def test_nothing_comes_from_the_network_and_nothing_runs(fitted, tmp_path):
    page = page_of(fitted, tmp_path)
    assert {tag for tag, _ in page.elements} & {"script", "link", "iframe", "object", "embed", "form", "base"} == set()
    policy = [meta["content"] for meta in page.all("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    assert policy == ["default-src 'none'; img-src data:; style-src 'unsafe-inline'"]
    assert page.all("html")[0]["lang"] == "en-GB"
    addresses = [v for _, a in page.elements for k, v in a.items() if k in {"src", "href", "action", "srcset", "data"}]
    assert all(address.startswith(("#", "data:image/png")) for address in addresses)
    assert "url(" not in page.source
    assert "@import" not in page.source
    assert not re.search(r"https?://", page.source)


@pytest.mark.usefixtures("no_corner")
def test_hostile_names_and_titles_are_only_text(tmp_path):
    post = by_hand(len(NASTY), names=NASTY, evaluations=300)
    page = page_of(
        post, tmp_path, title='</title><script>alert("t")</script>', log="</pre><script>alert(3)</script>", rng="<i>"
    )
    tags = {tag for tag, _ in page.elements}
    assert tags & {"script", "i", "iframe"} == set()
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert escape("<script>alert(1)</script>") in page.source
    assert "alert(3)" in page.words
    assert "漢字の名前" in page.words
    assert "α_max" in page.words
    assert page.source.count("a" * 300) == 1  # in the audit's own words; shortened everywhere else
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", page.source)


@pytest.mark.parametrize(
    ("name", "drawn"),
    [
        ("rate", "rate"),
        ("漢字", "no. 3"),
        ("a\nb", "a b"),
        (r"$\alpha_{\rm max}$", r"$\alpha_{\rm max}$"),
        ("$漢$", "no. 3"),
        ("\ud800", "no. 3"),
        ("x" * 40, "xxxxxxxxxx…xxxxx"),
    ],
)
def test_names_that_the_font_lacks_become_numbers(name, drawn):
    assert _drawable(name, 2) == drawn


def test_the_corner_plot_takes_hostile_names(tmp_path):
    names = (r"$\notacommand{$", "漢字", "<script>")
    page = page_of(by_hand(3, names=names, evaluations=100), tmp_path)
    assert "could not be drawn" not in page.words
    assert len(page.all("img")) == 2


@pytest.mark.slow
def test_a_page_of_ten_parameters_is_small(tmp_path):
    path = write_report(by_hand(10, evaluations=3000), tmp_path / "ten.html")
    assert path.stat().st_size < 2_000_000


@pytest.mark.usefixtures("no_corner")
def test_history_is_told_with_its_meaning(tmp_path):
    page = page_of(with_history(), tmp_path)
    for words in ("500", "420", "60 (", "123", "0.034 nats", "0.25", "turned", "17", "best points: −3.25", "12.3 s"):
        assert words in page.words
    for words in ("3.3 min", "importance weights", "0.31", "87\N{NO-BREAK SPACE}%", "1.2\N{NO-BREAK SPACE}%", "9.8.7"):
        assert words in "".join(page.text)


@pytest.mark.parametrize(("method", "words"), [("sequential", "in 4 steps"), ("none", "not possible")])
@pytest.mark.usefixtures("no_corner")
def test_other_refinements(method, words, tmp_path):
    page = page_of(with_history(method=method), tmp_path)
    assert words in page.words
    assert ("Pareto shape" in page.words) == (method == "sequential")


@pytest.mark.usefixtures("no_corner")
def test_a_posterior_without_refinement_says_so(tmp_path):
    post = with_history()
    page = page_of(replace(post, history=post.history._replace(refinement=None)), tmp_path)
    assert "The mixture is the posterior." in page.words


@pytest.mark.usefixtures("no_corner")
def test_a_compact_file_says_what_is_not_there(fitted, tmp_path):
    loaded = vsbq.load(fitted.save(tmp_path / "small.npz", compact=True))
    assert loaded.evaluations is None
    page = page_of(loaded, tmp_path)
    assert "There is nothing to audit" in page.words
    assert "not in this file" in page.words
    assert "not here" in page.words
    assert f"{len(fitted.evaluations)} evaluations" in page.words
    bare = page_of(replace(loaded, history=None), tmp_path)
    assert "no record of its fit" in bare.words
    assert "number of evaluations not recorded" in bare.words


@pytest.mark.usefixtures("no_corner")
def test_settings_that_differ_come_first(tmp_path):
    plain = page_of(by_hand(2), tmp_path, settings=vsbq.Settings())
    assert "All settings are the default ones." in plain.words
    chosen = Steps(surrogate=SparseGP(inducing_per_dimension=61), refinement=None)
    page = page_of(by_hand(2), tmp_path, settings=chosen, rng=42)
    assert "surrogate.inducing_per_dimension = 61 (default 150)" in page.words
    assert "refinement = None (default Refinement)" in page.words
    assert "mixture.family" not in page.words
    assert "family = FullCovariance" in page.words
    assert "random numbers (rng)42" in page.words
    assert len(page.all("details")) == 1
    printed = page_of(by_hand(2), tmp_path, settings=vsbq.Settings.paper())
    assert "as_published = True (default False)" in printed.words


@pytest.mark.usefixtures("no_corner")
def test_the_code_on_the_page_runs(fitted, tmp_path, monkeypatch, capsys):
    page = page_of(fitted, tmp_path)
    source = re.search(r"# pip install.*?\n\Z", "".join(page.text).split("Written by")[0], flags=re.DOTALL)
    assert source is not None
    fitted.save(tmp_path / "posterior.npz")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(source.group(0), names)
    assert np.shape(names["draws"]) == (1000, 3)
    assert "lapse" in capsys.readouterr().out


@pytest.mark.usefixtures("no_corner")
def test_the_method_of_the_posterior_writes_the_page(tmp_path):
    path = by_hand(1).report(tmp_path / "report", title="By method")
    assert path == tmp_path / "report.html"
    assert "By method" in path.read_text(encoding="utf-8")
    assert date.today().isoformat() in path.read_text(encoding="utf-8")


@pytest.mark.usefixtures("no_corner")
def test_nothing_is_overwritten_unasked(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        write_report(by_hand(1), path)
    assert path.read_text() == "mine"
    assert write_report(by_hand(1), path, overwrite=True) == path
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert write_report(by_hand(1), path, title="Once more") == path  # ours, on the same parameters
    page = path.read_bytes()
    assert b"Once more" in page
    with pytest.raises(FileExistsError, match="no report of vsbq on these parameters"):
        write_report(by_hand(2), path)
    with pytest.raises(FileExistsError, match="no report of vsbq on these parameters"):
        write_report(replace(by_hand(1), evaluations=None, tag="another study"), path)
    assert path.read_bytes() == page
    with pytest.raises(IsADirectoryError, match="folder"):
        write_report(by_hand(1), tmp_path, overwrite=True)
    with pytest.raises(FileNotFoundError, match="Create it first"):
        write_report(by_hand(1), tmp_path / "nowhere" / "page.html")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["page.html"]


def test_a_figure_that_fails_is_said_and_the_rest_is_there(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise ValueError("no <contours>")

    monkeypatch.setattr("vsbq.report.corner.corner", fail)
    page = page_of(by_hand(2), tmp_path)
    assert "could not be drawn (ValueError: no <contours>)" in page.words
    assert len(page.all("img")) == 1
    monkeypatch.setattr("vsbq.report.diagnosis_plot.plot_diagnosis", fail)
    page = page_of(by_hand(2), tmp_path)
    assert "The pictures of the checks could not be drawn (ValueError: no <contours>)" in page.words
    assert page.all("img") == []
    assert len(page.all("svg")) == 2


@pytest.mark.parametrize("scale", [1e-120, 1e-12, 1e9, 1e120])
def test_parameters_of_any_size(scale, tmp_path):
    post = by_hand(2, evaluations=60)
    space = replace(post.space, scale=np.array([scale, 1.0]))
    page = page_of(replace(post, space=space, evaluations=None), tmp_path)
    assert "nan" not in page.words
    assert "could not be drawn" not in page.words
    assert len(page.all("svg")) == 2


@pytest.mark.usefixtures("no_corner")
def test_noise_that_the_fit_found_is_told(tmp_path):
    post = with_history()
    found = NoiseFinding("estimated", 0.7, 1.0, 0)
    page = page_of(replace(post, history=post.history._replace(noise=found)), tmp_path)
    assert "a standard deviation of 0.7 is estimated" in page.words
    same = NoiseFinding("given", 0.7, 1.0, 0)
    page = page_of(replace(post, history=post.history._replace(noise=same)), tmp_path)
    assert "noise as the fit found itas stated" in page.words


def test_another_prior_is_told_and_drawn(fitted, tmp_path):
    post = fitted.with_prior(lambda x: -0.5 * x[..., 2] ** 2, old_log_prior=lambda x: 0.0 * x[..., 2], rng=0)
    assert post.prior_change is not None
    page = page_of(post, tmp_path)
    assert "Another prior." in page.words
    assert len(page.all("img")) == 2
    assert "Another prior." not in page_of(fitted, tmp_path).words


# Evaluations under the posterior, and regions


def test_support_counts_the_region_that_holds_the_share(rng):
    post = replace(by_hand(2, components=1), mixture=Mixture(np.zeros(1), np.zeros((1, 2)), np.eye(2)[None]))
    points = rng.normal(size=(3000, 2))
    seen = vsbq.Evaluations(points, -0.5 * (points**2).sum(axis=1), names=post.names)
    found = Support.of(replace(post, evaluations=seen), post.sample(20_000, rng=0))
    assert found is not None
    # Of 3000 standard normal points, 99 % and 50 % are inside, up to four standard errors of counts and levels.
    assert abs(found.under / 3000 - 0.99) < 4 * np.sqrt(0.99 * 0.01 * (1 / 3000 + 1 / 20_000))
    assert abs(found.under_core / 3000 - 0.5) < 4 * np.sqrt(0.25 * (1 / 3000 + 1 / 20_000))
    radius = np.linalg.norm(points, axis=1)
    assert radius[found.inside].max() < radius[~found.inside].min() + 1e-9
    far = vsbq.Evaluations(points + 20, -0.5 * (points**2).sum(axis=1), names=post.names)
    assert Support.of(replace(post, evaluations=far), post.sample(2000, rng=0)).under == 0


@pytest.mark.usefixtures("no_corner")
def test_two_regions_are_told_apart_and_a_chain_is_one(tmp_path):
    post, d = by_hand(2, components=2), 2
    apart = Mixture(np.log([0.3, 0.7]), np.array([[-3.0, 0.0], [3.0, 1.0]]), np.stack([0.5 * np.eye(d)] * 2))
    two = separate_modes(replace(post, mixture=apart), replace(post, mixture=apart).sample(20_000, rng=0))
    assert len(two) == 2
    assert abs(two[0].share - 0.7) < 4 * np.sqrt(0.21 / 20_000)
    np.testing.assert_allclose(two[0].mean, [3.0, 1.0], atol=4 * 0.5 / np.sqrt(14_000))
    angles = np.linspace(0, np.pi, 9)
    means = 3 * np.column_stack([np.cos(angles), np.sin(angles)])
    bow = Mixture(np.full(9, -np.log(9)), means, np.stack([0.5 * np.eye(d)] * 9))
    assert separate_modes(replace(post, mixture=bow), means) == ()
    page = page_of(replace(post, mixture=apart), tmp_path)
    assert "The posterior has 2 regions" in page.words
    assert "Separate regions" not in page_of(replace(post, mixture=bow), tmp_path).words


def test_small_regions_are_not_mentioned():
    post = by_hand(2, components=2)
    dust = Mixture(np.log([0.999, 0.001]), np.array([[0.0, 0.0], [9.0, 0.0]]), np.stack([np.eye(2)] * 2))
    post = replace(post, mixture=dust)
    assert len(separate_modes(post, post.sample(5000, rng=0))) < 2


# Contours of refined posteriors


def tilted(fitted: Posterior, slope: float) -> Posterior:
    """The fit with weights that are turned further towards high values of the first parameter."""
    refined = fitted.refined
    weights = refined.mixture_weights * np.exp(slope * refined.points[:, 0])
    return replace(fitted, refined=replace(refined, weights=weights / weights.sum()))


def test_contours_of_a_refined_posterior_follow_its_draws(fitted):
    post = tilted(fitted, 2.0)
    draws = post.sample(20_000, rng=0)
    low, high = np.quantile(draws, [0.0005, 0.9995], axis=0)
    grid = tuple(np.linspace(low[i], high[i], 97) for i in (0, 1))
    cell = (grid[0][1] - grid[0][0]) * (grid[1][1] - grid[1][0])
    x, y = middles(grid[0]), middles(grid[1])
    plain = surface(replace(fitted, refined=None), (0, 1), draws, grid)[0] * cell
    density, levels = surface(post, (0, 1), draws, grid)
    mean = (density * cell).sum(axis=1) @ x / (density * cell).sum()
    error = draws[:, 0].std() / np.sqrt(20_000)
    assert abs(mean - post.mean()[0]) < 0.05 * draws[:, 0].std()
    assert abs(plain.sum(axis=1) @ x / plain.sum() - post.mean()[0]) > 0.3 * draws[:, 0].std() > 20 * error
    assert abs((density * cell).sum() - 1) < 0.005
    inside = [(density * (density > level)).sum() * cell for level in levels]
    np.testing.assert_allclose(inside, SHARES, atol=0.02)
    assert len(y) == 96


def test_a_refined_posterior_of_three_parameters_can_be_plotted(fitted):
    assert fitted.refined is not None
    assert len(fitted.plot(draws=2000).axes) == 7


# Pieces


def test_strings_are_escaped_unless_they_are_markup():
    assert element("p", "<b>", element("b", "&")) == "<p>&lt;b&gt;<b>&amp;</b></p>"
    assert element("p", title='"x"') == '<p title="&quot;x&quot;"></p>'
    assert element("img", alt="a", src=None) == '<img alt="a">'
    assert isinstance(joined("<"), Markup)
    assert element("p", "\x00\ud800\n") == "<p>��\n</p>"
    assert "<td>&lt;i&gt;</td>" in table(["a", "b"], [["r", "<i>"]], label="t")
    assert "<td>&lt;td&gt;</td>" in table(["a", "b"], [["r", "<td>"]], label="t")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (r"$\alpha$", "α"),
        (r"$\lambda_{\mathrm{max}}$", "λ_max"),
        (r"rate $\Omega$ here", "rate Ω here"),
        (r"$\log x$", "logx"),
        ("5 $", "5 $"),
        (r"C:\alpha", r"C:\alpha"),
        (r"$\varepsilon$", "ε"),
    ],
)
def test_names_are_read_as_people_write_them(name, shown):
    assert readable(name) == shown


def test_long_names_keep_both_ends():
    short = shortened("threshold of the first observer in block 17", 20)
    assert len(short) <= 20
    assert short.startswith("threshold")
    assert short.endswith("17")
    assert shortened("fits", 20) == "fits"
    assert shortened(" a\n b ") == "a b"


@pytest.mark.parametrize(
    ("size", "spread", "value", "text", "power"),
    [
        (1.5, 0.123, 1.23456, "1.235", 0),
        (1500.0, 20.0, 1512.34, "1512.3", 0),
        (3e-7, 1e-8, 3.14159e-7, "3.142", -7),
        (2e9, 1e8, -2e9, "−2.000", 9),
        (1.0, 0.0, 1.0, "1.00", 0),
        (0.0, 0.0, -0.0, "0.000", 0),
        (1.0, np.nan, np.nan, "not known", 0),
        (1.0, 1.0, -np.inf, "−∞", 0),
    ],
)
def test_numbers_have_the_digits_they_deserve(size, spread, value, text, power):
    how = Digits.of(size, spread)
    if power:
        assert str(power).replace("-", "−") in how.unit
    assert how.power == power
    assert how.write(value).startswith(text[:4])


def test_words_for_numbers():
    assert digits.share(0.5) == "50\u00a0%"
    assert digits.share(1e-6) == "below 0.01\u00a0%"
    assert digits.share(0.9999) == "above 99.9\u00a0%"
    assert digits.share(0.0) == "0\u00a0%"
    assert digits.count(1234567) == "1\u202f234\u202f567"
    assert digits.signed(-0.001) == "0.00"
    assert digits.signed(-0.5) == "−0.50"
    assert digits.in_power(-12.3456, 0.123) == "−12.35\u00a0±\u00a00.12"
    assert digits.in_power(-12.3456, 0.0) == "−12.3456\u00a0±\u00a00.0000"
    assert digits.in_power(-1.5e7, 12.0).endswith("<sup>7</sup>")
    assert digits.given(0.1) == "0.1"
    assert digits.given(-1e-9).endswith("<sup>−9</sup>")
    assert [digits.seconds(s) for s in (0.01, 5.0, 300.0, 7200.0)] == ["below 0.1 s", "5.0 s", "5.0 min", "2.0 h"]


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.2, 7.7), (1e-9, 3e-9), (1e6, 1e6 + 0.02), (-5e8, 4e8)])
def test_ticks_are_round_and_inside(low, high):
    found = ticks(low, high, 5)
    assert 2 <= len(found) <= 6
    assert all(low <= tick <= high for tick in found)
    steps = np.diff(found)
    np.testing.assert_allclose(steps, steps[0], rtol=1e-5)
    mantissa = steps[0] / 10.0 ** np.floor(np.log10(steps[0]) + 1e-6)
    assert min(abs(mantissa - m) for m in (1, 2, 2.5, 5, 10)) < 1e-4
    assert ticks(1.0, 1.0, 5) == []


def test_the_curve_is_where_the_density_is():
    post = replace(by_hand(1, components=1), mixture=Mixture(np.zeros(1), np.zeros((1, 1)), np.ones((1, 1, 1))))
    svg = marginal_curve(post.marginal(0), norm.ppf([0.05, 0.5, 0.95]), 0.0, np.array([-1.0, 0.0, 99.0]))
    line = re.search(r'<path d="M([^"]*)" class="curve">', svg).group(1)
    places = np.array([[float(n) for n in pair.split()] for pair in line.split("L")])
    peak = places[np.argmin(places[:, 1])]
    assert abs(peak[0] - 160) < 2
    heights = 92 - places[:, 1]
    x = (places[:, 0] - 160) / (places[-1, 0] - places[0, 0]) * 2 * norm.isf(0.001) * 1.12
    np.testing.assert_allclose(heights / heights.max(), np.exp(-0.5 * x**2), atol=0.03)
    assert svg.count("v8") == 2  # the third evaluation is outside


def test_a_bound_is_drawn_where_the_curve_ends_at_it():
    post = by_hand(1, bounds=[(0.0, 1.0)])
    assert 'class="bound"' in marginal_curve(post.marginal(0), post.quantile([0.05, 0.5, 0.95])[:, 0], None, None)
    free = by_hand(1)
    assert 'class="bound"' not in marginal_curve(free.marginal(0), free.quantile([0.05, 0.5, 0.95])[:, 0], None, None)


def test_the_fingerprint_is_of_the_numbers():
    seen = by_hand(2).evaluations
    same = vsbq.Evaluations(np.array(seen.points), np.array(seen.log_density), names=["other", "names"])
    assert fingerprint(seen) == fingerprint(same)
    other = vsbq.Evaluations(np.array(seen.points), np.array(seen.log_density) + 1e-9)
    assert fingerprint(seen) != fingerprint(other)
    assert len(fingerprint(seen)) == 16


@pytest.mark.usefixtures("no_corner")
def test_evidence_of_a_refinement_shows_its_parts(fitted, tmp_path):
    assert isinstance(fitted.refined, Refined)
    loud = replace(fitted.refined, evidence=Evidence(1.0, 0.25, 0.5, 0.125, 0.75))
    page = page_of(replace(fitted, refined=loud), tmp_path)
    for words in (
        "surrogate0.25",
        "not trusted0.50",
        "random draws0.12",
        "single regions of the evaluations decide0.75",
    ):
        assert words in page.words


def test_every_part_of_the_error_of_the_evidence_is_shown():
    """Whatever `Evidence` adds up is in the list, by its own words or at least by its name."""
    assert set(ERRORS) == set(Evidence._fields) - {"value"}
    listed = _errors({**Evidence(1.0, 0.25, 0.5, 0.125)._asdict(), "moon_phase": 2.0})
    assert len(dict(listed)) == len(Evidence._fields)
    assert [value for _, value in listed[:4]] == ["2", "0.50", "0.25", "0.12"]
    assert listed[0][0] == "from moon phase"


@pytest.mark.usefixtures("no_corner")
@pytest.mark.parametrize("compact", [False, True])
def test_the_tag_is_shown(tmp_path, compact):
    post = by_hand(2)
    tagged = replace(post, evaluations=post.evaluations.with_tag("<b>model 1</b>"))
    if compact:
        tagged = vsbq.load(tagged.save(tmp_path / "small", compact=True))
    page = page_of(tagged, tmp_path)
    assert "tag of model and data<b>model 1</b>" in page.words
    assert "b" not in {tag for tag, _ in page.elements}
    assert "tag of model" not in page_of(post, tmp_path).words


@pytest.mark.usefixtures("no_corner")
def test_bounds_and_notes_are_shown(tmp_path):
    rng = np.random.default_rng(2)
    points = rng.uniform([0, -1], [1, 1], (200, 2))
    values = -20 * ((points - [0.5, 0.0]) ** 2).sum(axis=1)
    values[3] = -np.inf
    post = by_hand(2, bounds=[(0, 1), (-1.5, None)], names=("a", "b"))
    seen = vsbq.Evaluations(
        points, values, bounds=[(0, 1), (-1.5, None)], plausible_bounds=[(0.1, 0.9), (-1, 1)], names=["a", "b"]
    )
    assert isinstance(seen.bounds, Bounds)
    page = page_of(replace(post, evaluations=seen), tmp_path)
    assert "−1.5" in page.words
    assert "open" in page.words
    assert "0.1 to 0.9" in page.words
    assert "Kept 1 log density of -inf" in page.words
    assert "none: taken as exact" in page.words
