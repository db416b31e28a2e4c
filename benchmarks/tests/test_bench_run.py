"""The runner: real processes, lines as they end, nothing run twice, failures as lines."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from vsbq_bench.catalogue import METHODS, PROBLEMS
from vsbq_bench.lines import append_line, read_lines
from vsbq_bench.run import Runner, missing_jobs
from vsbq_bench.suites import SUITES, Job, jobs_of
from vsbq_bench.trace_cache import OPTIMISERS

RESULTS = Path(__file__).parents[1] / "results"
GOOD = Job("single", 0.0, "cma", 300, "laplace", 0)
JOBS = [GOOD, GOOD._replace(seed=1), GOOD._replace(method="no such method")]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Three jobs, two at a time, one of which fails."""
    folder = tmp_path_factory.mktemp("run")
    runner = Runner(lines=folder / "lines.jsonl", cache=folder / "traces", processes=2, progress=False)
    return runner, list(runner.run(JOBS))


def test_every_job_leaves_a_line_on_disk(ran):
    runner, lines = ran
    assert len(lines) == 3
    assert read_lines([runner.lines]) == [replace(line) for line in lines]


def test_a_line_says_what_was_run_and_what_it_took(ran):
    line = next(line for line in ran[1] if line.method == "laplace" and line.seed == 0)
    assert line.error is None
    assert (line.problem, line.optimiser, line.evaluations) == ("single", "cma", 300)
    assert line.processes == 2
    assert line.threads == max(1, (os.cpu_count() or 1) // 2)
    assert line.mmtv is not None
    assert 0 < line.mmtv < 1
    assert line.delta_lml is not None
    assert line.units is not None
    assert line.units > 0
    assert line.seconds["total"] > 0
    assert line.peak_gib is not None
    assert line.peak_gib > 0.01
    assert {"vsbq", "numpy", "scipy", "cma"} <= set(line.versions)


def test_a_failure_is_a_line_with_the_error(ran):
    failed = [line for line in ran[1] if line.error is not None]
    assert [line.method for line in failed] == ["no such method"]
    assert "no such method" in failed[0].error
    assert failed[0].mmtv is None


def test_what_has_a_line_is_not_run_again(ran):
    runner, _ = ran
    more = GOOD._replace(seed=2)
    assert missing_jobs([*JOBS, more], runner.lines) == [more]
    assert missing_jobs([*JOBS, more], runner.lines, retry_failed=True) == [JOBS[2], more]


def test_another_noise_or_length_is_another_job(ran):
    runner, _ = ran
    others = [
        GOOD._replace(noise_sd=1.0),
        GOOD._replace(evaluations_per_dimension=400),
        GOOD._replace(optimiser="bads"),
    ]
    assert missing_jobs(others, runner.lines) == others


def test_a_run_that_takes_too_long_is_given_up(tmp_path):
    runner = Runner(lines=tmp_path / "lines.jsonl", cache=tmp_path, timeout=0.05, progress=False)
    (line,) = runner.run([GOOD])
    assert line.error is not None
    assert "no result after" in line.error


def test_a_process_that_dies_leaves_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.executable", "/bin/false")
    runner = Runner(lines=tmp_path / "lines.jsonl", cache=tmp_path, progress=False)
    (line,) = runner.run([GOOD])
    assert line.error is not None
    assert "ended with code" in line.error


def test_traces_are_shared_between_methods(ran):
    runner, _ = ran
    assert len(list(runner.cache.iterdir())) == 2  # two seeds; the failed job reused the trace of seed 0


def test_lines_survive_between_calls(tmp_path, ran):
    path = tmp_path / "lines.jsonl"
    for line in ran[1]:
        append_line(path, line)
    assert missing_jobs(JOBS, path) == []


@pytest.mark.parametrize("suite", SUITES)
def test_suites_name_what_exists(suite):
    for job in jobs_of(suite):
        assert job.problem in PROBLEMS
        assert job.method in METHODS
        assert job.optimiser in OPTIMISERS


@pytest.mark.parametrize("suite", SUITES)
def test_stored_lines_name_what_exists(suite):
    lines = read_lines([RESULTS / f"{suite}.jsonl"])
    assert {line.method for line in lines} <= set(METHODS)
    assert {line.problem.removesuffix("_simulated") for line in lines} <= set(PROBLEMS)


def test_the_observer_is_run_as_printed_once():
    jobs = [job._replace(seed=0) for job in jobs_of("observer")]
    place = ("observer", 0.0, "cma", 3000)
    assert jobs.count(Job(*place, "vsbq", 0)) == 3
    assert jobs.count(Job(*place, "vsbq_paper", 0)) == 1
    assert len(jobs) == 4


def test_the_oracle_has_traces_that_the_default_has():
    jobs = jobs_of("oracle")
    assert len(jobs) == 2 * 4 * 5
    assert {job.noise_sd for job in jobs} == {1.0, 3.0, 5.0, 7.0}
    assert {job._replace(method="vsbq") for job in jobs} <= set(jobs_of("paper"))


def test_suites_go_seed_by_seed_without_repetition():
    jobs = jobs_of("paper")
    assert [job.seed for job in jobs] == sorted(job.seed for job in jobs)
    assert len(set(jobs)) == len(jobs)


def test_the_full_suite_is_the_one_promised():
    """Ten seeds of both entries at every level of noise; three of each baseline; five lengths; three of BADS."""
    jobs = set(jobs_of("paper"))
    for method in ("vsbq", "vsbq_paper"):
        for seed in range(10):
            assert {Job(p, 0.0, "cma", 3000, method, seed) for p in ("two_moons", "rosenbrock_gaussian")} <= jobs
            for noise in (0.0, 1.0, 3.0, 5.0, 7.0):
                assert {Job(p, noise, "cma", 3000, method, seed) for p in ("timing", "multisensory")} <= jobs
        assert Job("timing", 3.0, "cma", 1000, method, 4) in jobs
        assert Job("multisensory", 0.0, "bads", 3000, method, 2) in jobs
