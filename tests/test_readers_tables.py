"""Tables in files: what is read, from which encodings and separators, and what is refused with which words."""

from __future__ import annotations

import gzip
import io
import os
import zipfile

import numpy as np
import pandas as pd
import pytest

from vsbq.data.evaluations import Evaluations
from vsbq.errors import EvaluationsError
from vsbq.io.readers import limits

N = 50
RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(N, 2))
VALUES = -0.5 * np.sum(POINTS**2, axis=1)
PRIOR = -0.1 * POINTS[:, 0] ** 2


def text(names="a,b,log_density", columns=None, separator=",", end="\n") -> str:
    rows = np.column_stack([POINTS, VALUES] if columns is None else columns)
    return end.join([names, *(separator.join(map(repr, row.tolist())) for row in rows)]) + end


def written(tmp_path, content: str | bytes, name="fits.csv"):
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def check(ev: Evaluations) -> None:
    np.testing.assert_array_equal(ev.points, POINTS)
    np.testing.assert_array_equal(ev.log_density, VALUES)
    assert ev.names == ("a", "b")


# What is read

GERMAN = text("a;b;log_density", separator=";").replace(".", ",")


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (text(), "fits.csv"),
        (text().rstrip(), "fits.csv"),
        (text(end="\r\n"), "fits.csv"),
        (text(end="\r"), "fits.csv"),
        (text("a;b;log_density", separator=";"), "fits.csv"),
        (text("a\tb\tlog_density", separator="\t"), "fits.tsv"),
        (text("a|b|log_density", separator="|"), "fits.txt"),
        (text("a   b log_density", separator="  "), "fits.dat"),
        (GERMAN, "fits.csv"),
        (GERMAN.encode("utf-16"), "fits.csv"),
        (text().encode("utf-8-sig"), "fits.csv"),
        (text().encode("utf-16"), "fits.csv"),
        (text().encode("utf-32"), "fits.csv"),
        (b"\xfe\xff" + text().encode("utf-16-be"), "no suffix"),
        (gzip.compress(text().encode()), "fits.csv.gz"),
        (gzip.compress(text("a\tb\tlog_density", separator="\t").encode()), "fits.tsv.gz"),
        (text('"a","b","log_density"'), "fits.csv"),
        ("# made by me\n\n" + text() + "\n\n# the end\n", "fits.csv"),
        (text("# a,b,log_density"), "savetxt with a header.csv"),
        (text("#\n# a b log_density", separator=" "), "savetxt.txt"),
        (text(" a , b,  Log Density "), "fits.csv"),
    ],
)
def test_texts_that_mean_the_same(tmp_path, content, name):
    check(Evaluations.from_file(written(tmp_path, content, name)))


def test_an_old_encoding_must_be_named(tmp_path):
    path = written(tmp_path, text("größe,b,log_density").encode("cp1252"))
    with pytest.raises(EvaluationsError, match=r"fits.csv'.*not text in utf-8.*encoding="):
        Evaluations.from_file(path)
    assert Evaluations.from_file(path, encoding="cp1252").names == ("größe", "b")
    with pytest.raises(EvaluationsError, match="encoding 'klingon'"):
        Evaluations.from_file(path, encoding="klingon")
    with pytest.raises(EvaluationsError, match="encoding 'hex'"):
        Evaluations.from_file(path, encoding="hex")


def test_options_are_passed_on(tmp_path):
    path = written(tmp_path, text())
    ev = Evaluations.from_file(path, bounds={"a": (-9, 9)}, plausible_bounds=[(-1, 1)] * 2, log_density_sd=0.5)
    assert ev.bounds.kind == ("both", "open")
    assert ev.plausible_bounds is not None
    assert (ev.log_density_sd == 0.5).all()
    assert Evaluations.from_file(path, params=["b"]).names == ("b",)


def test_empty_cells_are_nan(tmp_path):
    lines = text().splitlines()
    lines[3] = "1.0,2.0,"
    path = written(tmp_path, "\n".join(lines))
    with pytest.raises(EvaluationsError, match=r"NaN or \+inf in 1 row \(row 2\).*Rows count from 0"):
        Evaluations.from_file(path)
    assert len(Evaluations.from_file(path, nonfinite="drop")) == N - 1


def test_a_large_file_is_read_in_a_few_seconds(tmp_path):
    rows = np.random.default_rng(0).normal(size=(10_000, 8))
    content = io.StringIO()
    np.savetxt(content, rows, delimiter=",", header="a,b,c,d,e,f,g,log_density", comments="")
    ev = Evaluations.from_file(written(tmp_path, content.getvalue()), check_sign=False)
    np.testing.assert_array_equal(ev.points, rows[:, :7])


# Which column is what


def test_columns_found_by_name(tmp_path):
    likelihood = VALUES - PRIOR
    columns = [np.arange(N), POINTS, likelihood, PRIOR, np.full(N, 0.3)]
    path = written(tmp_path, text("iteration,a,b,loglike,log_prior,log_density_sd", columns))
    ev = Evaluations.from_file(path)
    np.testing.assert_array_equal(ev.points, POINTS)
    np.testing.assert_allclose(ev.log_density, VALUES)
    np.testing.assert_array_equal(ev.log_prior, PRIOR)
    assert (ev.log_density_sd == 0.3).all()
    assert ev.notes == ("Left out 'iteration', which count rows or runs.",)


def test_a_posterior_wins_over_its_parts_and_must_be_their_sum(tmp_path):
    names = "a,b,log_likelihood,lnprior,log_posterior"
    ev = Evaluations.from_file(written(tmp_path, text(names, [POINTS, VALUES - PRIOR, PRIOR, VALUES])))
    check(ev)
    np.testing.assert_array_equal(ev.log_prior, PRIOR)
    np.testing.assert_allclose(ev.log_likelihood, VALUES - PRIOR)
    with pytest.raises(EvaluationsError, match=r"'log_posterior' is not the sum.*differ by 1 in row 0"):
        Evaluations.from_file(written(tmp_path, text(names, [POINTS, VALUES - PRIOR - 1, PRIOR, VALUES])))


@pytest.mark.parametrize(
    ("names", "options"),
    [
        ("a,b,neg_log_density", {}),
        ("a,b,Negative Log-Posterior", {}),
        ("a,b,loss", {"neg_log_density": "loss"}),
        ("a,b,y", {"neg_log_density": "y"}),
    ],
)
def test_values_that_were_minimised(tmp_path, names, options):
    check(Evaluations.from_file(written(tmp_path, text(names, [POINTS, -VALUES])), **options))


def test_text_and_index_columns_are_left_out(tmp_path):
    frame = pd.DataFrame(POINTS, columns=["a", "b"]).assign(log_density=VALUES, state="COMPLETE", empty=None)
    path = tmp_path / "fits.csv"
    frame.to_csv(path)
    ev = Evaluations.from_file(path)
    check(ev)
    assert ev.notes[0] == "Left out a column without a name."
    assert "'state' and 'empty'" in ev.notes[1]


@pytest.mark.parametrize(
    ("names", "options", "words"),
    [
        ("a,b,value", {}, "no column is clearly the log density.*neg_log_density=.*'a', 'b' and 'value'"),
        ("a,b,nll", {}, "Is 'nll' the negative log likelihood with minus the log prior.*neg_log_density='nll'"),
        ("a,b,neg_log_lik", {}, "Is 'neg_log_lik' the negative log.*neg_log_density='neg_log_lik'"),
        ("a,b,loss", {}, "Is 'loss' minus the log density.*neg_log_density='loss'"),
        ("a,b,val_loss", {}, "Is 'val_loss' minus the log density.*neg_log_density='val_loss'"),
        ("a,b,chi2", {}, "'chi2' may be chi-squared: the log likelihood is -chi2 / 2.*log_likelihood="),
        ("a,b,SSE", {}, r"'SSE' may be a sum of squares: the log likelihood is -SSE / \(2"),
        ("a,b,mse", {}, "'mse' may be a mean square: the log likelihood of n normal residuals"),
        ("a,b,deviance", {}, "'deviance' may be a deviance: the log likelihood is -deviance / 2"),
        ("a,mse,log_density", {}, "'mse' may or may not be parameters.*params="),
        ("a,b,loglike", {}, "'loglike' is a likelihood.*log_prior"),
        ("a,logp,log_density", {}, "'logp' and 'log_density' could all be the log_density"),
        ("a,neg_log_density,log_density", {}, "'log_density' and 'neg_log_density' could all be the values"),
        ("a,loss,log_density", {}, "'loss' may or may not be parameters.*params="),
        ("a,b,log_density", {"log_density": "lp"}, "no column 'lp'.*'a', 'b' and 'log_density'"),
        ("a,b,log_density", {"params": ["c"]}, "no column 'c'"),
        ("trial,run,log_density", {}, "no numeric column is left|may or may not"),
        ("a,a,log_density", {}, "more than one column 'a'"),
        ("a,\x1b[31mb,log_density", {}, "Use names that can be printed"),
        ("a," + "b" * 300 + ",log_density", {}, "at most 200"),
        ("1,2,3", {}, "first line holds numbers"),
    ],
)
def test_columns_that_are_in_doubt(tmp_path, names, options, words):
    columns = [np.arange(N), np.arange(N), VALUES] if names.startswith("trial") else None
    with pytest.raises(EvaluationsError, match=words):
        Evaluations.from_file(written(tmp_path, text(names, columns)), **options)


def test_a_name_with_the_word_error_in_it_may_be_a_parameter(tmp_path):
    ev = Evaluations.from_file(written(tmp_path, text("error_rate,cost_per_cell,log_density")))
    assert ev.names == ("error_rate", "cost_per_cell")


# What is refused


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: "", "it is empty"),
        (lambda t: "\n\n# nothing\n", "holds no table"),
        (lambda t: "a,b,log_density\n", "no rows"),
        (lambda t: t.replace("\n", ",7\n", 5).replace(",7\n", "\n", 1), "has 3 columns, but line 2 has 4, line 3"),
        (lambda t: t[: t.rindex(",")], "line 51 has 2.*cut short"),
        (
            lambda t: t + "1.0,two,3.0\n1.0,three,3.0\n",
            "line 52 has 'two' in column 'b', which is no number .and 1 more",
        ),
        (lambda t: t + "1_0,2.0,3.0\n", "line 52 has '1_0' in column 'a'"),
        (lambda t: t + "१,2.0,3.0\n", "line 52 .* in column 'a'"),
        (lambda t: t + "0x10,2.0,3.0\n", "'0x10'"),
        (lambda t: t + "1\0,2.0,3.0\n", "line 52 holds NUL"),
        (lambda t: t + '"1.0,2.0,3.0\n', "can't be read as a table"),
        (lambda t: t.encode("utf-16-le"), "NUL bytes"),
        (lambda t: t.replace(",", ";").replace(".", ",", 9), "a comma in a number and line .* a point"),
        (lambda t: "log_density\n1.0\n2.0\n", "one column only"),
        (lambda t: gzip.compress(t.encode())[:-30], "compression is damaged"),
        (lambda t: b"\x1f\x8b" + bytes(50), "compression is damaged|can't be read"),
        (lambda t: b"\x80\x04\x95" + bytes(50), "pickle"),
        (lambda t: b"\x93NUMPY" + bytes(50), "np.savez"),
        (lambda t: b"\x89HDF\r\n\x1a\n", "damaged"),
        (lambda t: '{"#loss": 3}', "from_nevergrad"),
        (lambda t: "PAR1 is not a table", "damaged"),
        (lambda t: b"PK\x03\x04 and then nothing", "damaged"),
        (lambda t: b"SQLite format 3\0 and then nothing", "damaged|SQLite|database|record"),
    ],
)
def test_files_that_are_refused(tmp_path, change, words):
    with pytest.raises(EvaluationsError, match=words) as caught:
        Evaluations.from_file(written(tmp_path, change(text())))
    assert "fits.csv" in str(caught.value)


def test_names_that_lie(tmp_path):
    for suffix in ("npz", "parquet", "db"):
        with pytest.raises(EvaluationsError, match=f"does not start like a .{suffix} file"):
            Evaluations.from_file(written(tmp_path, text(), f"fits.{suffix}"))
    np.savez(tmp_path / "fits.npz", points=POINTS, log_density=VALUES)
    (tmp_path / "fits.npz").rename(tmp_path / "fits.csv")
    assert Evaluations.from_file(tmp_path / "fits.csv").names == ("x1", "x2")


def test_paths_that_are_no_files(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    cases = {
        tmp_path: "folder",
        tmp_path / "pipe": "pipe or a device",
        "/dev/zero": "pipe or a device",
        tmp_path / "none.csv": "no such file",
        "a\0b.csv": "can't be opened",
        "x" * 5000: "can't be opened",
        "https://example.org/fits.csv": "no such file",
        "$(touch executed).csv": "no such file",
    }
    for path, words in cases.items():
        with pytest.raises(EvaluationsError, match=words) as caught:
            Evaluations.from_file(path)
        assert len(str(caught.value)) < 600
    hostile = written(tmp_path, "a,b\n", "\x1b[31mred\n'; rm -rf .csv")
    with pytest.raises(EvaluationsError) as caught:
        Evaluations.from_file(hostile)
    assert "\x1b" not in str(caught.value)


def test_bombs_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "SMALL", 2**16)
    path = written(tmp_path, gzip.compress(b"a,b,log_density\n" + b"1,2,3\n" * 2**18), "bomb.csv.gz")
    with pytest.raises(EvaluationsError, match="far more than its compressed size"):
        Evaluations.from_file(path)
    np.savez_compressed(tmp_path / "bomb.npz", points=np.zeros((2**18, 2)), log_density=np.zeros(2**18))
    with pytest.raises(EvaluationsError, match="far more than its size"):
        Evaluations.from_file(tmp_path / "bomb.npz")
    monkeypatch.setattr(limits, "LONGEST_LINE", 1000)
    with pytest.raises(EvaluationsError, match=r"line 2 has more than 999 characters.*transpose"):
        Evaluations.from_file(written(tmp_path, "a,b,log_density\n" + "1," * 1000))


# npz


def saved(tmp_path, **arrays):
    np.savez(tmp_path / "fits.npz", **arrays)
    return tmp_path / "fits.npz"


def test_npz(tmp_path):
    check(Evaluations.from_file(saved(tmp_path, a=POINTS[:, 0], b=POINTS[:, 1], log_density=VALUES)))
    names = np.array(["a", "b"])
    check(Evaluations.from_file(saved(tmp_path, X=POINTS, names=names, log_density=VALUES[:, None])))
    transposed = np.asfortranarray(POINTS.astype(np.float32))
    ev = Evaluations.from_file(
        saved(tmp_path, points=transposed, log_prior=PRIOR, log_likelihood=VALUES, box=np.eye(2))
    )
    np.testing.assert_array_equal(ev.points, POINTS.astype(np.float32))
    np.testing.assert_array_equal(ev.log_density, VALUES + PRIOR)
    assert ev.notes == ("Left out 'box', which is no column.",)


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("executed",)


def test_npz_that_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cases = [
        ({"points": POINTS, "log_density": np.array([Bomb()] * N)}, "pickled objects"),
        ({"points": POINTS, "log_density": VALUES[:-1]}, "not columns of one table"),
        ({"points": POINTS, "x": POINTS, "log_density": VALUES}, "several arrays of points"),
        ({"points": POINTS.astype(str), "log_density": VALUES}, "no numeric column"),
        ({"points": POINTS, "log_density": VALUES * 1j}, "no number"),
        ({"log_density": VALUES}, "no numeric column"),
    ]
    for arrays, words in cases:
        with pytest.raises(EvaluationsError, match=words):
            Evaluations.from_file(saved(tmp_path, **arrays))
    with zipfile.ZipFile("fits.npz", "w") as archive:
        archive.writestr("xl/workbook.xml", "<x/>")
    with pytest.raises(EvaluationsError, match="Excel"):
        Evaluations.from_file("fits.npz")
    with zipfile.ZipFile("fits.npz", "w") as archive:
        archive.writestr(
            "points.npy",
            b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999, 9)}".ljust(128),
        )
    with pytest.raises(EvaluationsError):
        Evaluations.from_file("fits.npz")
    assert not os.path.exists("executed")


# Parquet


def test_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "fits.parquet"
    frame = pd.DataFrame(POINTS, columns=["a", "b"]).assign(log_density=VALUES, state="done", number=np.arange(N))
    frame.to_parquet(path)
    ev = Evaluations.from_file(path)
    check(ev)
    assert ev.notes == (
        "Left out 'state', which hold no numbers.",
        "Left out 'number', which count rows or runs.",
    )
    frame.loc[3, "log_density"] = None
    frame.set_index("state").to_parquet(path)
    assert len(Evaluations.from_file(path, nonfinite="drop")) == N - 1
    frame.iloc[:0].to_parquet(path)
    with pytest.raises(EvaluationsError, match="no rows"):
        Evaluations.from_file(path)


def test_parquet_with_columns_of_other_kinds(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {
        "a": pyarrow.array(POINTS[:, 0].astype(np.float32)),
        "b": pyarrow.array(np.arange(N) % 7, pyarrow.int16()),
        "lists": pyarrow.array([[1.0]] * N),
        "flag": pyarrow.array([True] * N),
        "log_density": pyarrow.array(VALUES),
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "fits.parquet")
    ev = Evaluations.from_file(tmp_path / "fits.parquet")
    assert ev.names == ("a", "b")
    assert ev.notes == ("Left out 'lists' and 'flag', which hold no numbers.",)


# A data frame


def test_pandas_with_a_prior():
    frame = pd.DataFrame(POINTS, columns=["a", "b"]).assign(ll=VALUES - PRIOR, prior=PRIOR)
    ev = Evaluations.from_dataframe(frame, log_likelihood="ll", log_prior="prior")
    np.testing.assert_allclose(ev.log_density, VALUES)
    np.testing.assert_array_equal(ev.log_prior, PRIOR)
    assert ev.names == ("a", "b")
    flat = Evaluations.from_dataframe(frame, log_likelihood="ll", log_prior=-3.0, params=["a"])
    np.testing.assert_array_equal(flat.log_prior, np.full(N, -3.0))
    with pytest.raises(EvaluationsError, match="log_likelihood alone is not a posterior"):
        Evaluations.from_dataframe(frame, log_likelihood="ll")


# Databases


def test_the_file_of_a_recorder(tmp_path):
    from vsbq.io.record import Recorder

    path = tmp_path / "fits.db"
    with Recorder(path, names=["a", "b"], bounds=[(-9, 9)] * 2) as recorder:
        recorded = recorder.minimise(lambda x: 0.5 * float(np.sum(np.square(x))))
        for point in POINTS:
            recorded(point)
    for ev in (Evaluations.from_recorder(path), Evaluations.from_file(path)):
        check(ev)
        assert ev.bounds.pair(0) == (-9.0, 9.0)


def test_a_storage_of_optuna_is_pointed_on(tmp_path):
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    optuna.create_study(storage=f"sqlite:///{tmp_path}/study.db")
    with pytest.raises(EvaluationsError, match="from_optuna"):
        Evaluations.from_file(tmp_path / "study.db")
