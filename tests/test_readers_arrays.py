"""MAT-files and HDF5: which arrays are read, how axes are turned, and what is refused with which words.

Files of version 5 to 7 are written by SciPy, those of version 7.3 by h5py with MATLAB's attributes.
"""

from __future__ import annotations

import io
import json
import struct
import zlib

import h5py
import numpy as np
import pytest
from scipy.io import savemat

from test_cli_malformed import call, check_refused
from vsbq.data.evaluations import Evaluations
from vsbq.errors import EvaluationsError
from vsbq.io.readers import limits

N = 60
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
COST = 0.5 * (X**2).sum(axis=1)
USER_BLOCK = b"MATLAB 7.3 MAT-file, Platform: GLNXA64, Created on: Mon Jan  1 00:00:00 2024 HDF5 schema 1.00 ."


def check(ev: Evaluations, names=("x1", "x2", "x3"), rows: slice = slice(None)) -> None:
    np.testing.assert_array_equal(ev.points, X[rows])
    np.testing.assert_array_equal(ev.log_density, -COST[rows])
    assert ev.names == tuple(names)


def cell(*items) -> np.ndarray:
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


TRACE = {"X": X, "logp": -COST, "names": cell("mu", "sigma", "lapse")}
MAT = {
    "X": X,
    "fval": COST[:, None],
    "t": np.arange(float(N)),
    "LB": np.full((1, 3), -9.0),
    "options": {"Display": "iter", "MaxIter": 500.0},
    "ok": np.ones((N, 1), dtype=bool),
}


@pytest.fixture
def mat(tmp_path):
    """Writes a MAT-file of version 5 to 7, or of version 7.3, with the same arrays."""

    def write(arrays, version="7", name="trace.mat"):
        path = tmp_path / name
        if version == "7.3":
            write_v73(path, arrays)
        else:
            savemat(path, arrays, do_compression=version == "7", oned_as="column")
        return path

    return write


def write_v73(path, arrays) -> None:
    """As MATLAB does: axes the other way round, classes as attributes, cells as references, a block before the HDF5."""
    with h5py.File(path, "w", userblock_size=512) as file:
        refs = file.create_group("#refs#")
        for name, value in arrays.items():
            put(file, refs, name, value)
    with open(path, "r+b") as stream:
        stream.write(USER_BLOCK.ljust(116) + b"\0" * 8 + b"\x00\x02IM")


def put(group, refs, name, value) -> None:
    if isinstance(value, dict):
        inner = group.create_group(name)
        inner.attrs["MATLAB_class"] = np.bytes_("struct")
        for key, each in value.items():
            put(inner, refs, key, each)
        return
    kind, data = "double", np.atleast_2d(np.asarray(value).T if np.ndim(value) == 2 else value)
    if isinstance(value, str):
        kind, data = "char", np.array([[ord(char)] for char in value], dtype="u2")
    elif getattr(value, "dtype", np.dtype(float)).kind == "O":
        kind, data = "cell", np.array([refer(refs, each) for each in value], dtype=h5py.ref_dtype)[:, None]
    elif getattr(value, "dtype", np.dtype(float)).kind == "b":
        kind, data = "logical", data.astype("u1")
    made = group.create_dataset(name, data=data)
    made.attrs["MATLAB_class"] = np.bytes_(kind)


def refer(refs, value):
    name = f"r{len(refs)}"
    put(refs, refs, name, value)
    return refs[name].ref


VERSIONS = pytest.mark.parametrize("version", ["6", "7", "7.3"])


@VERSIONS
def test_points_and_values_by_name(mat, version):
    path = mat(MAT, version)
    ev = Evaluations.from_file(path, points="X", neg_log_density="fval", bounds=[(-9, 9)] * 3)
    check(ev)
    assert ev.notes[0] == "Left out 't': not among the points."
    check(Evaluations.from_file(path, neg_log_density="fval", params=["a", "b", "c"]), "abc")
    assert Evaluations.from_file(path, neg_log_density="fval", params=["x2"]).names == ("x2",)


@VERSIONS
def test_structs_and_their_names(mat, version):
    check(Evaluations.from_file(mat({"trace": TRACE, "n": 3.0}, version)), ("mu", "sigma", "lapse"))
    path = mat({"trace": TRACE, "other": {"X": X[:30], "logp": -COST[:30]}}, version)
    with pytest.raises(
        EvaluationsError, match=r"'(trace|other).X' and '(trace|other).X' could all be the points.*points='NAME'"
    ):
        Evaluations.from_file(path)
    check(Evaluations.from_file(path, points="other.X", log_density="other.logp"), rows=slice(30))
    check(Evaluations.from_file(path, points="trace.X", log_density="trace.logp"), ("mu", "sigma", "lapse"))
    with pytest.raises(EvaluationsError, match=r"several variables '(trace|other).logp' and .*. Write the whole name"):
        Evaluations.from_file(path, points="trace.X", log_density="logp")


@VERSIONS
def test_cells(mat, version):
    path = mat({"runs": cell({"X": X, "logp": -COST}, {"X": X[:30], "logp": -COST[:30]})}, version)
    check(Evaluations.from_file(path, points="runs{2}.X", log_density="runs{2}.logp"), rows=slice(30))


def test_arrays_of_structs(mat, tmp_path):
    runs = np.array([(X, -COST), (X[:30], -COST[:30])], dtype=[("X", "O"), ("logp", "O")])
    check(Evaluations.from_file(mat({"runs": runs}), points="runs(1).X", log_density="runs(1).logp"))
    path = tmp_path / "new.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        refs, group = file.create_group("#refs#"), file.create_group("runs")
        group.attrs["MATLAB_class"] = np.bytes_("struct")
        for field, values in {"X": (X, X[:30]), "logp": (-COST, -COST[:30])}.items():
            group[field] = np.array([refer(refs, each) for each in values], dtype=h5py.ref_dtype)[:, None]
    path.write_bytes(USER_BLOCK.ljust(512, b"\0") + path.read_bytes()[512:])
    check(Evaluations.from_file(path, points="runs(2).X", log_density="runs(2).logp"), rows=slice(30))


@VERSIONS
def test_evaluations_in_columns_are_turned(mat, version):
    ev = Evaluations.from_file(mat({"X": np.ascontiguousarray(X.T), "logp": -COST}, version))
    check(ev)
    assert ev.notes == ("Turned 'X': it is 3 x 60, with one column for each evaluation.",)


@VERSIONS
def test_one_array_for_each_parameter(mat, version):
    ev = Evaluations.from_file(mat({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "logp": -COST, "n": 3.0}, version))
    check(ev, "abc")
    one = Evaluations.from_file(mat({"a": X[:, 0], "fval": COST}, version), points="a", neg_log_density="fval")
    np.testing.assert_array_equal(one.points[:, 0], X[:, 0])


@VERSIONS
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, r"no column is clearly the log density.*neg_log_density='NAME'.*'fval'"),
        (
            {"points": "Y", "neg_log_density": "fval"},
            r"there is no 'Y'.*The variables are .*'X' \(60 x 3\).*'fval' \(60 x 1",
        ),
        ({"points": "X", "neg_log_density": "f"}, r"there is no 'f'.*The variables are"),
        ({"points": "ok", "neg_log_density": "fval"}, r"'ok' is logical, 60 x 1, and no matrix of numbers"),
        ({"points": "X", "neg_log_density": "LB"}, r"'LB' is 1 x 3, but one number for each of 60 points"),
        ({"points": "X", "neg_log_density": "ok"}, r"'ok' is logical, 60 x 1"),
        ({"neg_log_density": "fval", "params": ["a", "b"]}, r"'X' has 3 columns, but 2 parameters are named"),
    ],
)
def test_what_is_not_clear_is_refused(mat, version, options, words):
    ordered = {name: MAT[name] for name in ("X", "fval", "LB", "ok", "t")}
    with pytest.raises(EvaluationsError, match=words) as caught:
        Evaluations.from_file(mat(ordered, version), **options)
    assert "trace.mat'" in str(caught.value)


def test_other_arrays_are_not_guessed(mat):
    with pytest.raises(EvaluationsError, match=r"no variable is clearly the points.*points='NAME'. Perhaps: allPoints"):
        Evaluations.from_file(mat({"allPoints": X, "fval": COST}), neg_log_density="fval")
    with pytest.raises(EvaluationsError, match=r"'X' is 60 x 3, and no other variable has 60 numbers"):
        Evaluations.from_file(mat({"X": X, "fval": COST[1:]}))
    with pytest.raises(EvaluationsError, match=r"no arrays of numbers. The variables are 'note' \(text"):
        Evaluations.from_file(mat({"note": "hello", "z": X * 1j}))


def test_hdf5(tmp_path):
    path = tmp_path / "trace.h5"
    with h5py.File(path, "w") as file:
        file["run/X"], file["run/fval"], file["run/names"], file["remark"] = X, COST, ["a", "b", "c"], "hello"
        file.create_dataset("packed", data=X, compression="gzip")
    check(Evaluations.from_file(path, neg_log_density="fval"), "abc")
    check(Evaluations.from_file(path, points="packed", neg_log_density="run/fval"))
    with h5py.File(tmp_path / "julia.h5", "w") as file:  # column-major, as HDF5.jl and rhdf5 store it
        file["X"], file["fval"] = X.T, COST
    check(Evaluations.from_file(tmp_path / "julia.h5", neg_log_density="fval"))


def test_only_the_file_itself_is_read(tmp_path):
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["X"] = X
    path = tmp_path / "trace.h5"
    layout = h5py.VirtualLayout(shape=X.shape, dtype="f8")
    layout[:] = h5py.VirtualSource(tmp_path / "secret.h5", "X", shape=X.shape)
    with h5py.File(path, "w") as file:
        file["fval"] = COST
        file["linked"], file["soft"] = h5py.ExternalLink("secret.h5", "X"), h5py.SoftLink("/fval")
        file.create_virtual_dataset("virtual", layout)
        file["ring/fvals"] = COST
        file["ring/ring"] = file["ring"]
    with pytest.raises(EvaluationsError, match=r"groups more than"):
        Evaluations.from_file(path, points="linked", neg_log_density="fval")
    with h5py.File(path, "r+") as file:
        del file["ring/ring"]
    with pytest.raises(EvaluationsError, match=r"there is no 'linked'") as caught:
        Evaluations.from_file(path, points="linked", neg_log_density="fval")
    assert "'virtual' (kept in another file, 60 x 3)" in str(caught.value)
    assert "soft" not in str(caught.value)


def test_files_of_other_libraries_name_their_reader(tmp_path):
    path = tmp_path / "chain.h5"
    with h5py.File(path, "w") as file:
        file["mcmc/chain"], file["mcmc/log_prob"] = X, COST
    with pytest.raises(EvaluationsError, match=r"from_emcee"):
        Evaluations.from_file(path)


def test_npz_and_tables(tmp_path):
    np.savez(tmp_path / "a.npz", pts=X, fval=COST, other=np.arange(5.0))
    check(
        Evaluations.from_file(tmp_path / "a.npz", points="pts", neg_log_density="fval", params=["a", "b", "c"]), "abc"
    )
    (tmp_path / "a.csv").write_text("a,log_density\n1,2\n")
    with pytest.raises(EvaluationsError, match=r"a table of columns, which holds no array 'X'. Leave out points="):
        Evaluations.from_file(tmp_path / "a.csv", points="X")


# Malformed


def element(kind: int, content: bytes) -> bytes:
    return struct.pack("<II", kind, len(content)) + content + b"\0" * (-len(content) % 8)


def cells(dims, *inner: bytes) -> bytes:
    """A cell array as a MAT-file has it, of the dimensions that it claims."""
    flags = element(6, struct.pack("<II", 1, 0))
    return element(14, flags + element(5, struct.pack("<2i", *dims)) + element(1, b"a") + b"".join(inner))


def mat_of(*elements: bytes) -> bytes:
    return b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + b"".join(elements)


def nested(depth: int) -> bytes:
    inner = cells((0, 0))
    for _ in range(depth):
        inner = cells((1, 1), inner)
    return inner


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (mat_of(cells((40_000, 40_000))), r"claims a cell array or struct of 1600000000 elements"),
        (mat_of(nested(2000)), "more than 30 deep"),
        (mat_of(element(15, zlib.compress(bytes(2**22)))), "unpacks to far more than its size"),
        (mat_of(element(15, zlib.compress(cells((9999, 9999))))), "claims a cell array"),
        (mat_of(element(15, b"no deflate")), "compression is damaged"),
        (mat_of(element(14, bytes(8))[:-4]), "shorter than its headers say"),
        (mat_of(), "no arrays of numbers. It is empty"),
        (b"MATLAB 5.0 MAT-file", "header is damaged"),
        (b"MATLAB 7.3 MAT-file".ljust(600), "probably damaged"),
        (b"Octave-1-L", r"does not start like a MAT-file.*-v7"),
        (b"\x80\x04pickle", "looks like a pickle"),
    ],
)
def test_claims_and_damage(tmp_path, monkeypatch, content, words):
    monkeypatch.setattr(limits, "SMALL", 2**20)
    path = tmp_path / "trace.mat"
    path.write_bytes(content)
    with pytest.raises(EvaluationsError, match=words):
        Evaluations.from_file(path, neg_log_density="fval")


def test_large_claims_of_hdf5(tmp_path):
    path = tmp_path / "trace.h5"
    with h5py.File(path, "w") as file:
        file["fval"] = COST
        file.create_dataset("X", shape=(10**9, 30), dtype="f8", chunks=(1000, 30))  # no chunk is there
    with pytest.raises(EvaluationsError, match=r"it claims to hold 240000000000 bytes"):
        Evaluations.from_file(path, neg_log_density="fval")


@pytest.mark.parametrize("version", ["6", "7", "7.3", "h5"])
def test_damaged_bytes(mat, tmp_path, version):
    """Cut or changed anywhere: an error in words, or the numbers that the bytes left."""
    path = mat({"trace": TRACE, "c": cell("a", X)}, "7.3" if version == "h5" else version)
    data = path.read_bytes()[512 if version == "h5" else 0 :]
    refused = 0
    for number in range(60):
        rng = np.random.default_rng([3, number])
        place = int(rng.integers(len(data)))
        flip = bytes([data[place] ^ int(rng.integers(1, 256))])
        path.write_bytes(data[:place] if number % 3 == 0 else data[:place] + flip + data[place + 1 :])
        try:
            ev = Evaluations.from_file(path, points="trace.X", log_density="trace.logp", nonfinite="drop")
        except EvaluationsError as error:
            refused += 1
            words = str(error)
            assert "trace.mat" in words
            assert len(words) < 2500
        else:
            assert ev.dimension == 3
    assert refused >= 20


# The command line


def test_the_command_line_reads_them(mat, monkeypatch):
    path = mat(MAT)
    ran = call("audit", path, "--points", "X", "--column", "neg_log_density=fval", "--params", "mu,sd,lapse", "--json")
    assert ran.code == 0, ran
    told = json.loads(ran.out)
    assert (told["evaluations"], told["parameters"]) == (N, ["mu", "sd", "lapse"])
    assert call("audit", path, "--points", "X", "--neg", "--json").code == 0  # fval is what was minimised
    toml = path.with_name("problem.toml")
    toml.write_text('[input]\npoints = "X"\n[columns]\nneg_log_density = "fval"\n')
    assert json.loads(call("audit", path, "--config", toml, "--json").out)["evaluations"] == N


def test_the_command_line_joins_files(mat):
    files = [
        mat({"X": X[rows], "logp": -COST[rows]}, name=f"{i}.mat") for i, rows in enumerate((slice(30), slice(30, N)))
    ]
    assert json.loads(call("audit", *files, "--json").out)["evaluations"] == N


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "--column neg_log_density=fval"),
        (("--points", "Q", "--column", "neg_log_density=fval"), "there is no 'Q'"),
        (("--points", "X", "--column", "neg_log_density=LB"), "one number for each of 60 points"),
    ],
)
def test_the_command_line_refuses_in_its_own_words(mat, options, words):
    ran = call("audit", mat(MAT), *options)
    check_refused(ran)
    assert words in ran.err


def test_a_name_for_points_is_refused_where_there_are_none(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,log_density\n" + "".join(f"{x},{-x * x}\n" for x in range(30)))
    ran = call("audit", path, "--points", "X")
    check_refused(ran)
    assert "Leave out --points" in ran.err


def test_labels_of_fits_in_a_mat_file(mat):
    from vsbq.cli.input import read_groups
    from vsbq.cli.problem import Problem

    subject = np.repeat([1.0, 2.0], N // 2)
    path = mat({"X": X, "logp": -COST, "subject": subject})
    groups = read_groups([path], Problem(), "subject")
    assert list(groups) == ["1", "2"]
    check(groups["2"](), rows=slice(N // 2, N))


def test_a_stream_of_objects_is_not_unpickled(tmp_path):
    """Objects in npz and HDF5 are never made."""
    stream = io.BytesIO()
    np.savez(stream, pts=X, fval=np.array([{"a": 1}] * N, dtype=object))
    (tmp_path / "a.npz").write_bytes(stream.getvalue())
    with pytest.raises(EvaluationsError, match=r"pickled objects, which are not read"):
        Evaluations.from_file(tmp_path / "a.npz", points="pts", neg_log_density="fval")
