"""Many fits in one process: streams, failures as data, the folder, and what is printed."""

from __future__ import annotations

import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Barrier

import numpy as np
import pytest

import vsbq
from many_cases import QUICK, cases, evaluations, numbers, quick, same
from vsbq.errors import EvaluationsError, VsbqError, VsbqWarning
from vsbq.io.files.posterior_file import PosteriorFileError, load_with_origin
from vsbq.many import MissingFitError, stream
from vsbq.many.digest import digest_of_evaluations, digest_of_settings
from vsbq.many.guard import guarded
from vsbq.many.job import failed
from vsbq.many.names import file_of
from vsbq.many.result import MOST_ROWS, Failure, ManyFits, Row, Shelf
from vsbq.settings import Settings, Steps
from vsbq.steps.mixture.policy import VariationalMixture


def fit_many(given, **options):
    return vsbq.fit_many(given, **{"settings": QUICK, "rng": 3, "progress": False} | options)


@pytest.fixture(scope="module")
def three():
    return fit_many(cases(3))


# Streams


def test_each_is_what_a_single_fit_gives(three):
    for name, given in cases(3).items():
        alone = vsbq.fit(given, settings=QUICK, rng=stream(3, name), progress=False)
        assert numbers(three[name]) == numbers(alone)


def test_order_and_company_make_no_difference(three):
    few = fit_many(dict(reversed(list(cases(3).items()))) | {"another": evaluations(9)})
    assert all(numbers(few[name]) == numbers(three[name]) for name in three)
    assert list(few) == ["p2", "p1", "p0", "another"]


def test_seed_and_name_make_a_difference(three):
    assert not same(fit_many(cases(1), rng=4), {"p0": three["p0"]})
    other = fit_many({"other": cases(1)["p0"]})["other"]
    assert numbers(other) != numbers(three["p0"])


def test_streams_are_apart():
    draws = {stream(seed, name).integers(2**63) for seed in range(20) for name in ("", "a", "b", "1", "11")}
    assert len(draws) == 100
    assert stream(1, "1a").integers(2**63) != stream(11, "a").integers(2**63)


def test_a_list_is_named_by_its_places(three):
    fits = fit_many([evaluations(0), evaluations(1)])
    assert list(fits) == ["0", "1"]
    assert numbers(fits["0"]) != numbers(three["p0"])


def test_a_generator_gives_one_seed():
    one, two = (fit_many(cases(1), rng=np.random.default_rng(5)) for _ in range(2))
    assert same(one, two)
    assert one.rows[0].seed == np.random.default_rng(5).integers(2**63)


# Failures


def test_a_fit_that_fails_stops_no_other(three):
    def broken():
        raise OSError("no such tape")

    wrong = {"lost": broken, "few": lambda: evaluations(0, n=1), "odd": lambda: 3}
    given = {"p0": evaluations(0), **wrong, "p2": evaluations(2)}
    with pytest.warns(VsbqWarning, match="3 fits failed: 'lost', 'few' and 'odd'; see failures"):
        fits = fit_many(given)
    assert list(fits) == list(fits.posteriors) == ["p0", "p2"]
    assert list(fits.failures) == ["lost", "few", "odd"]
    assert str(fits.failures["lost"]) == "OSError: no such tape"
    assert "Evaluations" in fits.failures["odd"].message
    assert fits.failures["few"].kind == "EvaluationsError"
    assert "Traceback" in fits.failures["few"].traceback
    assert numbers(fits["p2"]) == numbers(three["p2"])
    with pytest.raises(MissingFitError, match=r"^The fit of 'lost' failed: no such tape$"):
        fits["lost"]
    assert "lost" not in fits
    assert fits.get("lost") is None


def test_an_error_that_nobody_foresaw_is_a_failure_too():
    @dataclass(frozen=True)
    class Unforeseen:
        def fit(self, region, training, rng, progress, earlier):
            raise ZeroDivisionError("a bug")

    with pytest.warns(VsbqWarning, match="1 fit failed"):
        fits = fit_many(cases(1), settings=quick(Unforeseen()))
    assert "a bug" in fits.failures["p0"].message


def test_functions_give_evaluations_when_it_is_their_turn(three):
    called = []

    def later(i):
        called.append(i)
        return evaluations(i)

    fits = fit_many({f"p{i}": lambda i=i: later(i) for i in range(3)})
    assert called == [0, 1, 2]
    assert same(fits, three)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "nothing to fit"),
        ([], "nothing to fit"),
        (evaluations(0), "Use vsbq.fit for a single one"),
        ({1: evaluations(0)}, "is no name of a fit"),
        ({"a\nb": evaluations(0)}, "is no name of a fit"),
        ({"a": np.zeros(3)}, "'a' is of type ndarray"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_once(given, words):
    with pytest.raises(EvaluationsError, match=words):
        vsbq.many.names.read_names(given)


@pytest.mark.parametrize(("options", "words"), [({"workers": 0}, "workers is 0"), ({"rng": -1}, "at least 0, not -1")])
def test_odd_options_are_refused(options, words):
    with pytest.raises(VsbqError, match=words):
        fit_many(cases(1), **options)


def test_workers_and_client_are_not_both_given():
    with pytest.raises(VsbqError, match="Pass client alone"):
        fit_many(cases(1), workers=2, client=object())


# Warnings


def test_warnings_of_fits_are_in_the_rows():
    noisy = {"calm": evaluations(0), "cut": vsbq.Evaluations(np.linspace(0.5, 3, 40), -np.linspace(0.5, 3, 40))}
    with pytest.warns(VsbqWarning, match="1 fit gave warnings: 'cut'; see rows"):
        fits = fit_many(noisy)
    assert [len(row.warnings) for row in fits.rows] == [0, 1]
    assert fits["cut"].verdict != "trusted"
    assert fits.rows[1].warnings[0].startswith(f"The fit is {fits['cut'].verdict}. ")


def test_warnings_of_others_pass_and_all_is_put_back():
    with warnings.catch_warnings(record=True) as others:
        warnings.simplefilter("always")
        before = warnings.showwarning, list(warnings.filters)
        with guarded() as heard:
            warnings.warn("not ours", UserWarning, stacklevel=1)
            warnings.warn("ours", VsbqWarning, stacklevel=1)
        assert (warnings.showwarning, list(warnings.filters)) == before
    assert heard == ["ours"]
    assert [str(each.message) for each in others] == ["not ours"]


def test_threads_hear_their_own_warnings():
    def hear(word):
        with guarded() as heard:
            together.wait(timeout=30)
            warnings.warn(word, VsbqWarning, stacklevel=1)
            together.wait(timeout=30)
        return heard

    together = Barrier(4)
    words = ["a", "b", "c", "d"]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(hear, words)) == [[word] for word in words]


# The folder


def test_what_is_in_the_folder_is_read_and_not_repeated(tmp_path, three):
    first = fit_many(cases(2), folder=tmp_path)
    times = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert sorted(path.name for path in times) == ["p0.npz", "p1.npz"]
    again = fit_many(cases(3), folder=tmp_path)
    assert [row.read for row in again.rows] == [True, True, False]
    assert {path: path.stat().st_mtime_ns for path in times} == times
    assert same(again, three)
    assert [row.log_evidence for row in first.rows] == [row.log_evidence for row in again.rows[:2]]
    assert str(again).endswith("3 fitted (2 of them read from files), 0 failed")


CHANGES = {
    "seed": ("another seed \\(3\\)", {"rng": 4}),
    "settings": ("other settings", {"settings": replace(QUICK, refinement=replace(QUICK.refinement, draws=1100))}),
    "evaluations": ("other evaluations", {"given": {"p0": evaluations(0, tag="other")}}),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_file_of_something_else_is_neither_taken_nor_replaced(what, tmp_path):
    words, change = CHANGES[what]
    fit_many(cases(1), folder=tmp_path)
    before = (tmp_path / "p0.npz").read_bytes()
    options = {"given": cases(1)} | change
    with pytest.warns(VsbqWarning, match="1 fit failed"):
        refused = fit_many(folder=tmp_path, **options)
    failure = refused.failures["p0"]
    assert failure.kind == "PosteriorFileError"
    assert (tmp_path / "p0.npz").read_bytes() == before
    with pytest.raises(MissingFitError, match=f"{words}.*Move it away.*overwrite=True"):
        refused["p0"]
    replaced = fit_many(folder=tmp_path, overwrite=True, **options)
    assert not replaced.rows[0].read
    assert (tmp_path / "p0.npz").read_bytes() != before
    assert fit_many(folder=tmp_path, **options).rows[0].read


def test_without_a_seed_any_seed_will_do(tmp_path):
    fit_many(cases(1), folder=tmp_path)
    again = fit_many(cases(2), rng=None, folder=tmp_path)
    assert [row.read for row in again.rows] == [True, False]
    assert again.rows[0].seed == 3
    repeated = fit_many(cases(2), rng=again.rows[1].seed)
    assert numbers(repeated["p1"]) == numbers(again["p1"])


def damaged(path, three):
    good = fit_many(cases(1), folder=path.parent) and path.read_bytes()
    path.write_bytes(good[:-100])


def empty(path, three):
    path.touch()


def by_hand(path, three):
    three["p0"].save(path)


def of_another_name(path, three):
    fit_many({"anna": evaluations(0)}, folder=path.parent)
    (path.parent / "anna.npz").rename(path)


@pytest.mark.parametrize("make", [damaged, empty, by_hand, of_another_name])
def test_half_written_and_foreign_files_are_not_trusted(make, tmp_path, three):
    make(tmp_path / "p0.npz", three)
    before = (tmp_path / "p0.npz").read_bytes()
    with pytest.warns(VsbqWarning, match="1 fit failed: 'p0'"):
        fits = fit_many(cases(2), folder=tmp_path)
    assert "is in the way" in fits.failures["p0"].message
    assert (tmp_path / "p0.npz").read_bytes() == before
    assert numbers(fits["p1"]) == numbers(three["p1"])
    assert same(fit_many(cases(2), folder=tmp_path, overwrite=True), {n: three[n] for n in ("p0", "p1")})


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path):
    def source():
        (tmp_path / "p0.npz").write_text("mine")
        return evaluations(0)

    folder = vsbq.many.folder.Folder.opened(tmp_path, ["p0"], False)
    source()
    with pytest.raises(PosteriorFileError, match="another program wrote it"):
        folder.keep("p0", b"ours")
    assert (tmp_path / "p0.npz").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p0.npz"]


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(PosteriorFileError, match="can't be made"):
        fit_many(cases(1), folder=tmp_path / "file")


def test_warnings_are_kept_in_the_file(tmp_path):
    given = {"cut": vsbq.Evaluations(np.linspace(0.5, 3, 40), -np.linspace(0.5, 3, 40))}
    with pytest.warns(VsbqWarning):
        first = fit_many(given, folder=tmp_path)
    with pytest.warns(VsbqWarning, match="gave warnings"):
        again = fit_many(given, folder=tmp_path)
    assert again.rows[0].warnings == first.rows[0].warnings
    origin = load_with_origin(tmp_path / "cut.npz")[1]
    assert (origin.name, origin.seed) == ("cut", 3)


def test_another_version_is_named(tmp_path, monkeypatch):
    fit_many(cases(1), folder=tmp_path)
    monkeypatch.setattr(vsbq.many.folder, "__version__", "99.0")
    with pytest.warns(VsbqWarning, match="Another version of vsbq made the files of 'p0'"):
        assert fit_many(cases(1), folder=tmp_path).rows[0].read


def test_names_become_files(tmp_path):
    names = ["full/anna", "..", "a:b", "ä", "100 %", ".hidden", "a.b"]
    files = [str(file_of(name)) for name in names]
    assert files == ["full/anna.npz", "%2E%2E.npz", "a%3Ab.npz", "ä.npz", "100 %25.npz", "%2Ehidden.npz", "a.b.npz"]
    fits = fit_many({name: evaluations(0) for name in names[:2]}, folder=tmp_path)
    assert (tmp_path / "full" / "anna.npz").is_file()
    assert len(fits) == 2
    assert not (tmp_path.parent / ".npz").exists()


@pytest.mark.parametrize(
    ("names", "words"),
    [(["a//b"], "can't be the name"), (["x" * 300], "can't be the name"), (["Anna", "anna"], "can't be told apart")],
)
def test_names_that_make_no_files_are_refused(names, words, tmp_path):
    with pytest.raises(EvaluationsError, match=words):
        fit_many({name: evaluations(0) for name in names}, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


# Digests


def test_digests_tell_evaluations_apart():
    base = evaluations(0)
    same_again = vsbq.Evaluations(base.points, base.log_density)
    others = [
        vsbq.Evaluations(base.points + 1e-15, base.log_density),
        vsbq.Evaluations(base.points, np.nextafter(base.log_density, 1)),
        vsbq.Evaluations(base.points, base.log_density, log_density_sd=0.0),
        vsbq.Evaluations(base.points, base.log_density, log_prior=0.0),
        vsbq.Evaluations(base.points, base.log_density, bounds=[(-99, 99)]),
        vsbq.Evaluations(base.points, base.log_density, plausible_bounds=[(-99, 99)]),
        vsbq.Evaluations(base.points, base.log_density, names=["a"]),
        vsbq.Evaluations(base.points, base.log_density, tag="t"),
    ]
    assert digest_of_evaluations(same_again) == digest_of_evaluations(base)
    assert len({digest_of_evaluations(each) for each in (base, *others)}) == len(others) + 1


def test_digests_tell_settings_apart():
    assert digest_of_settings(None) == digest_of_settings(Settings()) == digest_of_settings(Steps())
    others = [
        Settings(draws=10),
        Settings(refine=False),
        Settings.paper(),
        Steps(mixture=VariationalMixture(then=(1, 1))),
    ]
    assert len({digest_of_settings(each) for each in (None, *others)}) == 5

    class Opaque:
        def fit(self, region, training, rng, progress, earlier): ...

    with pytest.raises(VsbqError, match="Make it a frozen dataclass"):
        digest_of_settings(Steps(mixture=Opaque()))


# What is printed


def test_the_table_prints(three):
    lines = str(three).splitlines()
    assert lines[0].split() == ["name", "evaluations", "D", "log", "evidence", "sd", "seconds", "warnings", "from"]
    assert [line.split()[0] for line in lines[1:4]] == ["p0", "p1", "p2"]
    assert lines[-1] == "3 fitted, 0 failed"
    assert repr(three) == "ManyFits(3 posteriors, 0 failures)"
    assert max(map(len, lines)) <= 120


def test_a_long_table_is_cut():
    row = Row(name="x", evaluations=1, dimension=1, log_evidence=0.0, log_evidence_sd=0.0, seconds=1.0, seed=0)
    rows = tuple(replace(row, name=f"{i}-" + "long" * 30) for i in range(MOST_ROWS + 5))
    failures = {f"f{i}": Failure(kind="E", message="two\nlines") for i in range(12)}
    lines = str(ManyFits(rows, failures, Shelf({}))).splitlines()
    assert "... and 5 more" in lines
    assert "... and 2 more failures" in lines
    assert "failed: f0: E: two lines" in lines
    assert max(map(len, lines)) <= 140


def test_numbers_for_programs(three):
    told = three.to_dict()
    assert set(told) == {"fits", "failures"}
    assert told["fits"]["p1"]["log_evidence"] == three["p1"].log_evidence


def test_failures_travel_between_processes():
    error = EvaluationsError("Pass ", vsbq.errors.Argument("overwrite", True), ".")
    there = pickle.loads(pickle.dumps(failed(error))).failure
    assert there.message.worded(lambda argument: "X") == "Pass X."
