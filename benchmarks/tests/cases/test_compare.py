"""Comparing results: a worsening is found, noise is not, failures and missing cases are named."""

import subprocess
from dataclasses import replace

import numpy as np
import pytest

from vsbq.cli import main
from vsbq_bench.cases.compare import ALL, compare
from vsbq_bench.cases.report import comparison_in_words
from vsbq_bench.lines import Line, append_line

KINDS = ("curved", "funnel", "modes", "skewed")
NOISE = 0.2


def results(rng, cases=48, shift=None):
    """Lines of made-up cases, every third with three seeds; their typical scores are the same in every call."""
    base = np.random.default_rng(0).normal(0.5, 0.6, cases)
    lines = []
    for i in range(cases):
        kind = KINDS[i % len(KINDS)]
        worse = (shift or {}).get(kind, 0.0)
        for seed in range(3 if i % 3 == 0 else 1):
            noise = NOISE * rng.standard_normal(3)
            error = 0.1 * (abs(base[i]) + worse + noise[2])
            lines.append(
                Line(
                    problem=f"case {i}",
                    noise_sd=0.0,
                    optimiser="cma",
                    evaluations=100,
                    method="vsbq",
                    seed=seed,
                    mmtv=0.01 * np.exp(base[i] + worse + noise[0]),
                    floor_mmtv=0.01,
                    gskl=0.001 * np.exp(base[i] + worse + noise[1]),
                    delta_lml=abs(error),
                    log_evidence_sd=0.1,
                    z=error / 0.1,
                    case={"kind": kind, "half": "development"},
                )
            )
    return lines


def found(comparison):
    return [change for change in (*comparison.by_kind, *comparison.by_case) if change.verdict]


def test_noise_is_estimated_from_the_seeds(rng):
    comparison = compare(results(rng, 300), results(rng, 300))
    for name in ("log MMTV/floor", "log GsKL"):
        assert comparison.noise[name].freedom == 400
        assert abs(comparison.noise[name].sd - NOISE) < 4.5 * NOISE / np.sqrt(2 * 400)


def test_a_worse_kind_is_found_and_the_others_are_left_alone(rng):
    others = 0
    for _ in range(8):
        comparison = compare(results(rng), results(rng, shift={"funnel": 1.0}))
        verdicts = {(change.of, change.measure): change.verdict for change in comparison.by_kind}
        for measure in ("log MMTV/floor", "log GsKL", "|z|"):
            assert verdicts["funnel", measure] == "worse"
            assert verdicts[ALL, measure] == "worse"
        others += sum(verdicts[kind, "log GsKL"] != "" for kind in KINDS if kind != "funnel")
        others += sum(change.verdict == "better" for change in comparison.by_case)
    assert others <= 3  # each of 16 families of comparisons is wrong in one of a hundred


def test_what_is_worse_one_way_is_better_the_other(rng):
    old, new = results(rng), results(rng, shift={"modes": 1.5})
    there, back = compare(old, new), compare(new, old)
    assert len(found(there)) > 10
    assert [change.verdict for change in there.by_kind if change.of == "modes"] == ["worse"] * 3
    assert [change.verdict for change in back.by_kind if change.of == "modes"] == ["better"] * 3
    assert {change.of for change in there.by_case} == {change.of for change in back.by_case}


def test_noise_alone_is_rarely_taken_for_a_change(rng):
    """Nine families of comparisons, each wrong in at most one of a hundred."""
    wrong = sum(bool(found(compare(results(rng), results(rng)))) for _ in range(40))
    assert wrong <= 13


def test_the_same_results_do_not_differ(rng):
    lines = results(rng)
    comparison = compare(lines, lines)
    assert found(comparison) == []
    assert comparison.paired == 48
    assert "No single case changed" in comparison_in_words(comparison)


def test_without_repeated_seeds_nothing_counts(rng):
    old, new = ([line for line in results(rng, shift=s) if line.seed == 0] for s in (None, {"funnel": 5.0}))
    comparison = compare(old, new)
    assert found(comparison) == []
    assert "the noise is unknown" in comparison_in_words(comparison)


def test_failures_and_missing_cases_are_named(rng):
    old = results(rng)
    failed = replace(old[0], error="FitError: no", mmtv=None, gskl=None, z=None)
    comparison = compare(old, [failed, *old[1:-1]])
    assert comparison.new_failures == ("case 0",)
    assert comparison.only_old == ("case 47",)
    assert compare([failed, *old[1:]], old).mended == ("case 0",)
    said = comparison_in_words(comparison)
    assert "1 fail now:\n  case 0" in said
    assert "1 only in the old results:\n  case 47" in said


def test_an_infinite_score_is_a_worsening(rng):
    old = results(rng)
    new = [
        replace(line, gskl=None, details={"infinite": ["gskl"]}) if line.problem == "case 5" else line for line in old
    ]
    assert [(change.of, change.measure, change.verdict) for change in compare(old, new).by_case] == [
        ("case 5", "log GsKL", "worse")
    ]


def test_of_several_lines_of_a_run_the_last_counts(rng):
    old = results(rng)
    earlier = [replace(line, mmtv=0.9) for line in old]
    assert found(compare(old, [*earlier, *old])) == []


# On the command line


def write(path, lines):
    for line in lines:
        append_line(path, line)
    return str(path)


def test_two_files(tmp_path, rng, capsys):
    old = write(tmp_path / "old.jsonl", results(rng))
    new = write(tmp_path / "new.jsonl", results(rng, shift={"funnel": 2.0}))
    assert main(["bench", "compare", old, new]) == 0
    said = capsys.readouterr().out
    (row,) = (line for line in said.splitlines() if line.startswith("funnel"))
    assert row.count("worse") == 3
    assert "48 cases in both" in said


@pytest.fixture
def repository(tmp_path, rng, monkeypatch):
    """A file of results whose first version is committed and whose second is worse."""

    def git(*words):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    (tmp_path / "results").mkdir()
    path = tmp_path / "results" / "zoo.jsonl"
    write(path, results(rng))
    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    path.unlink()
    write(path, results(rng, shift={"funnel": 2.0}))
    monkeypatch.chdir(tmp_path)
    return "results/zoo.jsonl"


@pytest.mark.parametrize("old", ["HEAD", "HEAD:results/zoo.jsonl"])
def test_a_revision_of_a_file(repository, capsys, old):
    assert main(["bench", "compare", old, repository]) == 0
    (row,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("funnel"))
    assert row.count("worse") == 3


@pytest.mark.parametrize(
    ("old", "word"),
    [("v9", "at v9"), ("HEAD:results/none.jsonl", "none.jsonl at HEAD"), ("empty.jsonl", "no result lines")],
)
def test_what_cannot_be_read_is_named(repository, tmp_path, capsys, old, word):
    (tmp_path / "empty.jsonl").touch()
    assert main(["bench", "compare", old, repository]) == 1
    assert word in capsys.readouterr().err


def test_two_names_that_are_no_files(tmp_path, capsys):
    assert main(["bench", "compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 1
    assert "no file" in capsys.readouterr().err
