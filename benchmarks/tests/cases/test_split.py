"""The table of cases and its halves: all factors, all subjects, balance in every stratum, and jobs for each."""

from collections import Counter
from hashlib import sha256
from typing import NamedTuple

import pytest

from vsbq.cli import main
from vsbq.errors import VsbqWarning
from vsbq_bench.cases.cases import Case, all_cases, case_named, compose, halves, seeds_of
from vsbq_bench.cases.optimisers import BOXED, OPTIMISERS
from vsbq_bench.cases.split import HALVES, Stratified, count_by_kind, split, thrice
from vsbq_bench.cases.subjects import SCIENCE, SHAPES
from vsbq_bench.cases.traces import BOXES, BY_POINT
from vsbq_bench.catalogue import METHODS
from vsbq_bench.job import run_job
from vsbq_bench.lines import append_line
from vsbq_bench.metrics import CASE_DRAWS, Scores
from vsbq_bench.run import Runner, missing_jobs
from vsbq_bench.suites import CASE_SUITES, jobs_of
from vsbq_bench.task import Answer

# kind: cases in development and in validation. A change of a subject changes this; results do not.
COUNTS = {
    "bounded": (5, 5),
    "cliff": (4, 3),
    "correlated": (3, 3),
    "curved": (5, 6),
    "edge": (3, 3),
    "funnel": (3, 2),
    "gaussian": (1, 2),
    "heavy_tails": (2, 2),
    "high_dimension": (2, 2),
    "modes": (5, 4),
    "ridge": (2, 2),
    "skewed": (5, 6),
}
EVERY_HALF = "d5cbe8f12853ae28"  # SHA-256 of all names with their halves


class Toy(NamedTuple):
    name: str
    kind: str
    science: bool
    hard: bool
    noisy: bool


def toys(n, rng):
    flags, kinds = rng.random((n, 3)) < 0.4, rng.choice(["bear", "crow", "eel"], n)
    return [Toy(f"toy {i}", str(kinds[i]), *map(bool, row)) for i, row in enumerate(flags)]


def groups(case):
    """Each group is dealt out evenly: kinds, and within a kind the noisy ones, and of these the hard ones."""
    whole = (case.kind, case.noisy, case.hard, case.science)
    return [whole[:length] for length in range(1, 5)]


@pytest.mark.parametrize("n", [1, 7, 80, 201])
def test_kinds_their_strata_and_the_whole_are_dealt_out_evenly(n, rng):
    cases = toys(n, rng)
    halved = split(cases)
    counts = Counter((group, halved[case.name]) for case in cases for group in groups(case))
    for key in {group for case in cases for group in groups(case)}:
        assert abs(counts[key, HALVES[0]] - counts[key, HALVES[1]]) <= 1
    assert abs(Counter(halved.values())[HALVES[0]] - n / 2) <= 0.5
    assert len(thrice(cases)) == sum(-(-Counter(halved.values())[half] // 3) for half in HALVES)


def test_the_split_knows_names_and_not_the_order(rng):
    cases = toys(80, rng)
    halved = split(cases)
    assert split([cases[i] for i in rng.permutation(80)]) == halved
    renamed = split([case._replace(name=f"other {case.name}") for case in cases])
    assert [renamed[f"other {case.name}"] for case in cases] != [halved[case.name] for case in cases]


def test_the_table_has_every_factor_and_every_subject():
    cases = all_cases()
    assert all(isinstance(case, Stratified) for case in cases)
    assert len(cases) >= 72
    assert len({case.name for case in cases}) == len(cases)
    assert {case.subject.name for case in cases} == set(SCIENCE) | set(SHAPES)
    assert 2 * sum(case.science for case in cases) == len(cases)
    assert sum(case.hard for case in cases) >= len(cases) / 3
    assert {case.optimiser for case in cases} == set(OPTIMISERS)
    assert {case.noise for case in cases} == {0.0, 1.0, 3.0, BY_POINT}
    assert {case.box for case in cases} == set(BOXES)
    assert {case.runs for case in cases} == {"one", "several"}
    assert {case.evaluations_per_dimension for case in cases} == {30, 100, 300, 1000, 3000}


def test_the_table_has_nothing_senseless():
    for case in all_cases():
        assert case.optimiser not in ("bads", "tpe") or case.evaluations_per_dimension <= 100
        assert case.optimiser not in BOXED or case.box != "narrow"
        assert case.optimiser != "random" or case.runs == "several"
        assert case_named(case.name) == case
    assert case_named("no such case") is None


def test_a_new_subject_at_the_end_leaves_the_first_cases_alone():
    subjects = list(SHAPES.values())
    before = compose(subjects[:-1], 1)
    assert compose(subjects, 1)[: len(subjects) - 1] == before[: len(subjects) - 1]
    assert compose([], 1) == []


def test_the_halves_are_these():
    assert {row.kind: (row.development, row.validation) for row in count_by_kind(all_cases(), halves())} == COUNTS
    every = "\n".join(f"{name} {half}" for name, half in sorted(halves().items()))
    assert sha256(every.encode()).hexdigest().startswith(EVERY_HALF)


def test_cases_are_printed_with_their_halves(capsys):
    assert main(["bench", "cases"]) == 0
    said = capsys.readouterr().out
    for kind, numbers in COUNTS.items():
        (line,) = (line for line in said.splitlines() if line.split()[:1] == [kind] and line.split()[1].isdigit())
        assert tuple(map(int, line.split()[1:])) == numbers
    assert all(case.name in said for case in all_cases())


@pytest.mark.parametrize("suite", ["zoo-development", "zoo-validation"])
def test_a_third_of_a_half_has_three_seeds(suite):
    jobs = jobs_of(suite)
    seeds = Counter(job.problem for job in jobs)
    assert set(seeds) == {name for name, half in halves().items() if half in CASE_SUITES[suite].halves}
    assert set(seeds.values()) == {1, 3}
    assert sum(count == 3 for count in seeds.values()) == -(-len(seeds) // 3)
    assert [job.seed for job in jobs] == sorted(job.seed for job in jobs)
    assert {job.method for job in jobs} == {"vsbq"}


def test_the_ablation_is_run_once_on_every_case_of_the_validation_half():
    methods = {"ablation_unturned", "ablation_unpassed", "ablation_unshaped", "ablation_alone"}
    names = [name for name in halves() if halves()[name] == "validation"]
    jobs = jobs_of("zoo-ablation")
    assert {(job.problem, job.method, job.seed) for job in jobs} == {(n, m, 0) for n in names for m in methods}
    assert len(jobs) == len(names) * len(methods)
    assert methods <= set(METHODS)
    usual = {job._replace(method="") for job in jobs_of("zoo-validation")}
    assert {job._replace(method="") for job in jobs} <= usual  # the same traces


def test_the_controls_are_run_on_whatever_the_default_is_run_on():
    methods = {"control_few_inducing", "control_narrow_region"}
    usual = jobs_of("zoo-development") + jobs_of("zoo-validation")
    jobs = jobs_of("zoo-control")
    assert set(jobs) == {job._replace(method=method) for job in usual for method in methods}
    assert len(jobs) == 2 * len(usual)
    assert methods <= set(METHODS)


def test_the_oracle_is_run_on_the_noisy_cases_that_the_default_is_run_on():
    noisy = {case.name for case in all_cases() if case.noisy}
    usual = [job for half in ("development", "validation") for job in jobs_of(f"zoo-{half}") if job.problem in noisy]
    assert set(jobs_of("zoo-oracle")) == {job._replace(method="oracle") for job in usual}
    assert 30 < len({job.problem for job in usual}) < 50
    assert "oracle" in METHODS


def test_there_is_no_third_half():
    with pytest.raises(ValueError, match="got 'both'"):
        seeds_of("both")


# A run of a case, with a method that knows the answer


@pytest.fixture
def known(monkeypatch):
    def method(task):
        import warnings

        warnings.warn("something is odd", VsbqWarning, stacklevel=1)
        warnings.warn("not ours", RuntimeWarning, stacklevel=1)
        return Answer(
            draws=task.problem.draw(task.draws, task.rng),
            log_evidence=task.problem.log_evidence - 0.3,
            log_evidence_sd=0.1,
            details={"refinement": {"share_outside": 0.25}},
        )

    monkeypatch.setattr("vsbq_bench.job.METHODS", {"vsbq": method})
    monkeypatch.setattr("vsbq_bench.job.unit_seconds", lambda: 1.0)
    monkeypatch.setattr("vsbq_bench.job.CASE_DRAWS", 1000)
    monkeypatch.setattr("vsbq_bench.job.floor", lambda *_: Scores(0.0, 0.01, 0.001))


def shape_job():
    return next(
        job
        for suite in CASE_SUITES
        for job in jobs_of(suite)
        if job.problem.split("-")[0] in SHAPES and job.optimiser == "nelder_mead"
    )


@pytest.mark.parametrize("name", ["psychometric", "wald"])
def test_a_stored_truth_has_draws_for_two_sets_of_a_floor(name, rng):
    assert SCIENCE[name].make().draw(2 * CASE_DRAWS, rng).shape[0] == 2 * CASE_DRAWS


def test_a_line_of_a_case_says_what_it_was_and_what_came_out(known, tmp_path):
    job = shape_job()
    case = case_named(job.problem)
    assert isinstance(case, Case)
    line = run_job(job, tmp_path)
    assert line.error is None
    assert line.problem == case.name
    assert line.signed_error == pytest.approx(-0.3)
    assert line.z == pytest.approx(-3.0)
    assert line.warnings == {"something is odd": 1}
    assert line.share_outside == 0.25
    assert line.peak_gib is not None
    assert line.case["half"] == halves()[case.name]
    for name in ("kind", "science", "hard", "optimiser", "noise", "box", "runs"):
        assert line.case[name] == getattr(case, name)
    assert line.mmtv is not None
    assert line.mmtv < 0.2
    assert (line.floor_mmtv, line.floor_gskl) == (0.01, 0.001)


def test_cases_with_a_line_are_not_run_again(known, tmp_path):
    job = shape_job()
    path = tmp_path / "zoo.jsonl"
    append_line(path, run_job(job, tmp_path))
    other = job._replace(seed=1)
    assert missing_jobs([job, other], path) == [other]


def test_a_case_whose_process_dies_leaves_a_line_with_its_attributes(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.executable", "/bin/false")
    (line,) = Runner(lines=tmp_path / "zoo.jsonl", cache=tmp_path, progress=False).run([shape_job()])
    assert line.error is not None
    assert line.case["kind"] == case_named(shape_job().problem).kind
    assert missing_jobs([shape_job()], tmp_path / "zoo.jsonl") == []


def test_all_seeds_of_a_case_share_a_trace(known, tmp_path):
    for seed in range(2):
        run_job(shape_job()._replace(seed=seed), tmp_path)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_wrong_case_is_an_error_with_the_known_ones(tmp_path, capsys):
    command = ["bench", "run", "--suite", "zoo-development", "--results", str(tmp_path)]
    assert main([*command, "--problems", "easy"]) == 1
    assert "problem 'easy'" in capsys.readouterr().err
