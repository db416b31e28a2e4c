"""What is malformed, through the real command line: one clear line, exit code 1 or 2, nothing replaced, nothing run.

Bytes are damaged at random places too; where the damage leaves a file valid, the answer must be the undamaged one.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import pickle
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import vsbq
from vsbq.cli import main
from vsbq.io.record import Recorder
from vsbq.settings import Steps
from vsbq.steps.mixture.policy import VariationalMixture
from vsbq.steps.surrogate.shaped_data import SparseGP

SOURCES = Path(vsbq.__file__).parents[1]
SMALL = Steps(
    surrogate=SparseGP(inducing_per_dimension=20), mixture=VariationalMixture(max_components=4), refinement=None
)
EXECUTED = "executed"


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


def call(*arguments) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:  # --help and --version
            code = int(stop.code or 0)
    return Ran(code, out.getvalue(), err.getvalue())


def contents(folder: Path) -> dict[str, bytes | None]:
    """All files of a folder, but for those that SQLite makes beside a database while it reads."""
    found = [path for path in folder.rglob("*") if not path.name.endswith(("-shm", "-wal"))]
    return {str(path): path.read_bytes() if path.is_file() else None for path in found}


def check_refused(ran: Ran, codes: tuple[int, ...] = (1, 2)) -> None:
    """One clear line and nothing else."""
    assert ran.code in codes, ran
    assert ran.out == "", ran
    assert ran.err.endswith("\n"), ran
    line = ran.err[:-1]
    assert line.isprintable(), ran
    assert 20 < len(line) < 2000, ran
    assert "Traceback" not in line
    assert "bug in vsbq" not in line, ran
    assert line.startswith(("vsbq: ", '{"error": ')), ran


def refused(*arguments, codes: tuple[int, ...] = (1, 2)) -> str:
    """The message with which a command is refused; the working folder stays as it is."""
    before = contents(Path())
    ran = call(*arguments)
    check_refused(ran, codes)
    assert contents(Path()) == before
    assert not Path(EXECUTED).exists()
    return ran.err


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A good file of each kind, made once."""
    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    points = rng.normal([0.5, -0.5], [1.0, 1.5], (120, 2))
    values = 7.0 - 0.5 * ((points - [0.3, -0.2]) ** 2 / [0.5, 1.5]).sum(axis=1)
    rows = "".join(f"{a!r},{b!r},{y!r}\n" for (a, b), y in zip(points.tolist(), values.tolist(), strict=True))
    (folder / "good.csv").write_text("a,b,log_density\n" + rows)
    (folder / "good.csv.gz").write_bytes(gzip.compress((folder / "good.csv").read_bytes()))
    np.savez_compressed(folder / "good.npz", points=points, log_density=values)
    with Recorder(folder / "good.db", names=["a", "b"]) as recorder:
        recorder.record(points, values)
    with pytest.warns(vsbq.errors.VsbqWarning, match="not refined"):
        vsbq.fit(points, values, names=["a", "b"], settings=SMALL, rng=0).save(folder / "posterior.npz")
    return folder


@pytest.fixture(autouse=True)
def here(made, tmp_path, monkeypatch) -> Path:
    """An own folder to work in, with the good files."""
    folder = Path(shutil.copytree(made, tmp_path / "here"))
    monkeypatch.chdir(folder)
    return folder


def test_the_good_files_are_good():
    for name in ("good.csv", "good.csv.gz", "good.npz", "good.db"):
        ran = call("audit", name)
        assert ran.code == 0, ran
    assert call("sample", "posterior.npz", "-n", 2).code == 0


# Files that are cut short or have other bytes

DAMAGES = 12
KINDS = ["good.csv.gz", "good.npz", "good.db"]


def damaged(data: bytes, how: str, rng: np.random.Generator) -> bytes:
    place = int(rng.integers(len(data)))
    if how == "cut":
        return data[:place]
    if how == "flipped":
        return data[:place] + bytes([data[place] ^ int(rng.integers(1, 256))]) + data[place + 1 :]
    junk = rng.integers(0, 256, 64, dtype=np.uint8).tobytes()
    return data[:place] + junk + data[place + 64 :]


@pytest.mark.parametrize("how", ["cut", "flipped", "junk"])
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_tables(kind, how, rng):
    data, good = Path(kind).read_bytes(), call("audit", kind, "--json").out
    bad, refusals = Path(f"bad-{kind}"), 0
    for _ in range(DAMAGES):
        bad.write_bytes(damaged(data, how, rng))
        before = bad.read_bytes()
        ran = call("audit", bad, "--json")
        if ran.code == 0:  # bytes that no number hangs on, such as a time in the archive, or other digits in a database
            assert json.loads(ran.out)["evaluations"] == json.loads(good)["evaluations"]
        else:
            check_refused(ran, (1,))
            assert json.loads(ran.err)["error"]["code"] == 1
            refusals += 1
        assert bad.read_bytes() == before
    assert refusals >= (DAMAGES // 2 if how == "cut" else 0)
    assert not Path(EXECUTED).exists()


@pytest.mark.parametrize("how", ["cut", "flipped", "junk"])
def test_damaged_posteriors(how, rng):
    data, good = Path("posterior.npz").read_bytes(), call("sample", "posterior.npz", "-n", 3, "--seed", 1).out
    refusals = 0
    for i in range(2 * DAMAGES):
        Path("bad.npz").write_bytes(damaged(data, how, rng))
        command = ["compare", "posterior.npz", "bad.npz"] if i % 4 == 0 else ["sample", "bad.npz", "-n", "3"]
        ran = call(*command, "--seed", 1)
        if ran.code == 0:
            assert i % 4 == 0 or ran.out == good
        else:
            check_refused(ran, (1,))
            refusals += 1
    assert refusals > DAMAGES


@pytest.mark.parametrize("command", ["sample", "suggest", "report", "compare"])
def test_every_command_that_loads_refuses_damage(command):
    data = Path("posterior.npz").read_bytes()
    Path("bad.npz").write_bytes(data[: len(data) // 2])
    assert "bad.npz" in refused(command, "bad.npz", *(["posterior.npz"] if command == "compare" else []), codes=(1,))


class Bomb:
    """Pickled, it makes a folder when it is read."""

    def __reduce__(self):
        return os.mkdir, (EXECUTED,)


def zipped(**members: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return stream.getvalue()


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def header(**fields) -> bytes:
    return npy(np.frombuffer(json.dumps(fields).encode(), np.uint8))


def claiming(shape: str) -> bytes:
    """An array that claims to be huge."""
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


FOREIGN = {
    "nothing": lambda: b"",
    "zeros": lambda: bytes(5000),
    "text": lambda: b"hello\n",
    "html": lambda: b"<!DOCTYPE html><script>1</script>",
    "json": lambda: b'{"a": [1, 2], "log_density": [3, 4]}',
    "pickle": lambda: pickle.dumps(Bomb()),
    "pickle in npy": lambda: npy(np.array([Bomb()], dtype=object)),
    "pickle in npz": lambda: zipped(points=npy(np.array([Bomb()], dtype=object)), log_density=npy(np.zeros(1))),
    "pickled header": lambda: zipped(header=npy(np.array([Bomb()], dtype=object))),
    "empty zip": lambda: zipped(),
    "zip of text": lambda: zipped(a=b"hello"),
    "zip bomb": lambda: zipped(header=bytes(2**26), points=bytes(2**26)),
    "claims": lambda: zipped(points=claiming("(1000000000, 1000)"), log_density=claiming("(1000000000,)")),
    "negative shape": lambda: zipped(points=claiming("(-1, 2)"), log_density=claiming("(-1,)")),
    "code in a header": lambda: zipped(points=claiming("__import__('os').mkdir('executed')")),
    "other npz": lambda: zipped(a=npy(np.zeros(3)), b=npy(np.zeros(4))),
    "format of the future": lambda: zipped(header=header(format="vsbq posterior", format_version=99)),
    "half a header": lambda: zipped(header=header(format="vsbq posterior", format_version=1)),
    "header of a list": lambda: zipped(header=npy(np.frombuffer(b"[1, 2]", np.uint8))),
    "deep header": lambda: zipped(header=npy(np.frombuffer(b"[" * 100_000, np.uint8))),
    "xlsx": lambda: zipped(**{"xl/workbook": b""}),
    "gzip bomb": lambda: gzip.compress(b"1,2,3\n" * 100 + bytes(2**25)),
    "bzip2": lambda: b"BZh91AY&SY" + bytes(50),
    "sqlite by name": lambda: b"SQLite format 3\0" + bytes(200),
    "pdf": lambda: b"%PDF-1.7\n" + bytes(100),
    "parquet by name": lambda: b"PAR1" + bytes(100) + b"PAR1",
    "hdf5": lambda: b"\x89HDF\r\n\x1a\n" + bytes(100),
    "utf-16": lambda: "a,b,log_density\n1,2,3\n".encode("utf-16-le"),
    "latin-1": lambda: "ä,b,log_density\n1,2,3\n".encode("latin-1"),
    "ebcdic": lambda: ("a,b,log_density\n" + "1,2,3\n" * 50).encode("cp500"),
}


@pytest.mark.parametrize("kind", list(FOREIGN))
def test_foreign_files_wherever_a_file_is_asked_for(kind):
    data = FOREIGN[kind]()
    for name in ("evil.csv", "evil.npz", "evil"):
        Path(name).write_bytes(data)
    for name in ("evil.csv", "evil.npz"):
        refused("audit", name, codes=(1,))
        refused("sample", name, codes=(1,))
    refused("fit", "evil", "good.csv", "-o", "out", codes=(1,))
    refused("compare", "posterior.npz", "evil", codes=(1,))
    if data:  # an empty file is valid TOML
        refused("audit", "good.csv", "--config", "evil", codes=(1,))


# Names of files

HOSTILE = [
    *(
        "two\nlines.csv",
        "\x1b[2J\x1b[31mred.csv",
        "tab\there.csv",
        "bell\a.csv",
        "🙂.csv",
        "ü\u0308.csv",
        "\u202egnp.csv",
    ),
    *(
        "$(mkdir executed).csv",
        "; mkdir executed;.csv",
        "`mkdir executed`.csv",
        "' or 1=1 --.csv",
        "%s%n%d.csv",
        "{0}.csv",
    ),
    *(
        "file:x?mode=rwc",
        "sqlite:///x.db",
        "http://example.invalid/x.csv",
        "~",
        "*",
        "?.csv",
        "..",
        "/",
        "con.csv",
        " ",
    ),
    *(
        "a" * 255,
        "a" * 300,
        "a" * 5000,
        "a/" * 3000,
        "\udcff.csv",
        "nul\0byte.csv",
        "good.csv/inside",
        "posterior.npz/x",
    ),
]


@pytest.mark.parametrize("name", HOSTILE, ids=[ascii(name)[:30] for name in HOSTILE])
def test_hostile_names_of_files_that_are_not_there(name):
    refused("fit", "good.csv", name, "-o", "out", codes=(1,))
    refused("report", name, "--json", codes=(1,))
    refused("compare", "posterior.npz", f"other={name}", codes=(1,))
    refused("audit", "good.csv", "--config", name, codes=(1,))


DASHED = ["-", "--", "-rf.csv", "--output=x", "-o", "-n", "--neg=1", "-\n"]


@pytest.mark.parametrize("name", DASHED)
def test_names_with_leading_dashes(name):
    refused("audit", name)
    refused("sample", name)
    if name not in ("-", "-\n"):  # which are names like any other
        refused("sample", "posterior.npz", "-o", name)


def test_a_name_that_is_hostile_and_there_is_read():
    for name in ("two\nlines.csv", "$(mkdir executed).csv", "-rf.csv", "\x1b[31mred.csv"):
        shutil.copy("good.csv", name)
        ran = call("audit", "--", name)
        assert ran.code == 0, ran
        assert "\x1b" not in ran.out
        assert "\nlines" not in ran.out
    assert not Path(EXECUTED).exists()


# TOML

TOML = {
    "not TOML": "hello",
    "no value": "title =",
    "twice": "title = 'a'\ntitle = 'b'",
    "open string": "title = 'a",
    "open bracket": "[parameters",
    "deep": "a = " + "[" * 5000,
    "endless digits": f"title = {'9' * 5000}",
    "unknown": "tilte = 'a'",
    "unknown section": "[parameter.a]\nbounds = [0, 1]",
    "unknown key": "[parameters.a]\nbound = [0, 1]",
    "unknown column": "[columns]\nlogdensity = 'lp'",
    "unknown input": "[input]\nnon_finite = 'drop'",
    "section is a number": "parameters = 3",
    "section is a list": "columns = ['a']",
    "array of sections": "[[parameters]]\na = 1",
    "no parameters": "[parameters]",
    "parameter is a number": "[parameters]\na = 3",
    "parameter is a text": "[parameters]\na = '0,1'",
    "one bound": "[parameters.a]\nbounds = [0]",
    "three bounds": "[parameters.a]\nbounds = [0, 1, 2]",
    "bounds as text": "[parameters.a]\nbounds = ['0', '1']",
    "bounds as booleans": "[parameters.a]\nbounds = [false, true]",
    "bounds as dates": "[parameters.a]\nbounds = [1979-05-27, 1979-05-28]",
    "bounds reversed": "[parameters.a]\nbounds = [1, 0]",
    "bounds NaN": "[parameters.a]\nbounds = [nan, 0]",
    "bounds of inf": "[parameters.a]\nbounds = [inf, -inf]",
    "bounds huge": f"[parameters.a]\nbounds = [0, {'9' * 400}]",
    "bounds too narrow": "[parameters.a]\nbounds = [0, 0.001]",
    "plausible outside": "[parameters.a]\nbounds = [-90, 90]\nplausible = [0, 100]\n[parameters.b]\nplausible=[0,1]",
    "plausible for one": "[parameters.a]\nplausible = [0, 1]\n[parameters.b]",
    "plausible open": "[parameters.a]\nplausible = [0, inf]\n[parameters.b]\nplausible = [0, 1]",
    "other parameters": "[parameters.c]\nbounds = [0, 1]",
    "empty name": '[parameters.""]\nbounds = [0, 1]',
    "hostile name": '[parameters."\\u001b[31m"]\nbounds = [0, 1]',
    "value as parameter": "[parameters.a]\n[parameters.log_density]",
    "column not there": "[columns]\nlog_density = 'll'",
    "column is a number": "[columns]\nlog_density = 3",
    "column is a list": "[columns]\nlog_density = ['log_density']",
    "two columns": "[columns]\nlog_density = 'log_density'\nneg_log_density = 'b'",
    "prior without likelihood": "[columns]\nlog_likelihood = 'log_density'",
    "sd negative": "[columns]\nlog_density_sd = -1",
    "sd NaN": "[columns]\nlog_density_sd = nan",
    "sd is a boolean": "[columns]\nlog_density_sd = true",
    "prior is -inf": "[columns]\nlog_prior = -inf",
    "policy": "[input]\nnonfinite = 'keep'",
    "policy is a list": "[input]\noutside = ['drop']",
    "sign": "[input]\ncheck_sign = 'yes'",
    "encoding": "[input]\nencoding = 'klingon'",
    "encoding is a number": "[input]\nencoding = 8",
    "encoding of another": "[input]\nencoding = 'utf-16'",
    "not text": "[input]\nencoding = 'base64'",
    "title": "title = ['a']",
    "large": "#" * 2**21,
}


@pytest.mark.parametrize("kind", list(TOML))
def test_malformed_toml(kind):
    Path("problem.toml").write_text(TOML[kind])
    message = refused("fit", "good.csv", "--config", "problem.toml", "-o", "out")
    assert "problem.toml" in message or "good.csv" in message or kind in ("two columns",)


def test_a_wrong_key_names_the_right_one():
    for wrong, right in (("tilte = 'a'", "'title'"), ("[parameters.a]\nbound = [0, 1]", "'bounds'")):
        Path("problem.toml").write_text(wrong)
        assert f"Did you mean {right}" in refused("audit", "good.csv", "--config", "problem.toml", codes=(1,))


# Options

FIT = ["fit", "good.csv", "-o", "out"]
USAGE = [
    ["frobnicate"],
    ["--json"],
    ["fit"],
    ["fit", "good.csv"],
    ["fit", "-o", "out"],
    ["fit", "good.csv", "good.csv", "-o", "out"],
    ["sample"],
    ["sample", "posterior.npz", "posterior.npz"],
    ["report"],
    ["compare"],
    ["compare", "posterior.npz"],
    ["compare", "posterior.npz", "posterior.npz"],
    ["compare", "a=posterior.npz", "a=good.npz"],
    ["suggest", "posterior.npz", "-n", "5000"],
    ["bench"],
    ["bench", "frobnicate"],
    *(
        [*FIT, "--bound", text]
        for text in ("", "a", "a=", "a=1", "=0,1", "a=x,y", "a=0,1,2", "a=nan,1", "a=0;1", "a=0,é")
    ),
    [*FIT, "--bound", "a=0,1", "--bound", "a=0,2"],
    [*FIT, "--plausible", "a"],
    *([*FIT, "--column", text] for text in ("", "x", "log_density", "log_density=", "logdensity=b", "=b", "a=b=c")),
    [*FIT, "--column", "log_density=b", "--column", "log_density=a"],
    [*FIT, "--column", "log_density=b", "--column", "neg_log_density=a"],
    [*FIT, "--column", "neg_log_density=log_density", "--neg"],
    [*FIT, "--column", "log_likelihood=log_density", "--neg"],
    *([*FIT, "--sd", text] for text in ("", "x", "-1", "nan", "inf", "1,5", "1e999")),
    [*FIT, "--sd", "1", "--column", "log_density_sd=b"],
    *([*FIT, "--seed", text] for text in ("", "x", "-1", "1.5", "1e3", str(2**63), "9" * 5000)),
    *([*FIT, "--draws", text] for text in ("", "x", "0", "-1", "1.5", "99999999999", "9" * 5000)),
    *([*FIT, "--params", text] for text in ("", ",", "a,", "a,,b")),
    [*FIT, "--params", "a,b,a"],
    [*FIT, "--format", "xlsx"],
    [*FIT, "--nonfinite", "keep"],
    [*FIT, "--outside", "floor"],
    [*FIT, "--quiet", "--progress"],
    [*FIT, "--overwrit"],
    [*FIT, "--config"],
    [*FIT, "extra\x1b[31m"],
]


@pytest.mark.parametrize("arguments", USAGE, ids=lambda a: ascii(" ".join(a))[:60])
def test_wrong_usage(arguments):
    refused(*arguments, codes=(2,))


def test_no_arguments_at_all_is_wrong_usage_with_the_help():
    ran = call()
    assert (ran.code, ran.out) == (2, "")
    assert "examples:" in ran.err


FAILING = [
    [*FIT, "--bound", "c=0,1"],
    [*FIT, "--bound", "a=1,0"],
    [*FIT, "--bound", "a=5,6"],
    [*FIT, "--plausible", "a=0,1"],
    [*FIT, "--column", "log_density=c"],
    [*FIT, "--column", "log_prior=c"],
    [*FIT, "--column", "log_density=a", "--params", "a"],
    [*FIT, "--params", "c"],
    [*FIT, "--neg"],
    [*FIT, "--encoding", "klingon"],
    [*FIT, "--encoding", "hex"],
    ["fit", "good.db", "-o", "out", "--neg"],
    ["fit", "good.db", "-o", "out", "--sd", "1"],
    ["fit", "good.db", "-o", "out", "--params", "a"],
    ["fit", "good.csv", "posterior.npz", "-o", "out"],
    ["fit", "good.csv", "good.npz", "-o", "out"],
    ["compare", "--group", "posterior.npz", "good.npz"],
    ["compare", "--group", ".", "/nowhere"],
]


@pytest.mark.parametrize("arguments", FAILING, ids=lambda a: " ".join(a)[:60])
def test_options_that_do_not_fit_the_file(arguments, monkeypatch):
    monkeypatch.setattr("vsbq.cli.fit.fit", lambda *args, **options: pytest.fail("nothing should be fitted"))
    refused(*arguments, codes=(1,))


def test_json_errors_have_a_code():
    for arguments, code in ((["audit", "nothing.csv"], 1), (["audit", "good.csv", "--bound", "a"], 2)):
        found = json.loads(refused(*arguments, "--json"))["error"]
        assert found["code"] == code
        assert set(found) == {"code", "kind", "message"}


# Where results go


def test_results_go_only_where_nothing_is_in_the_way(monkeypatch):
    monkeypatch.setattr("vsbq.cli.fit.fit", lambda *args, **options: pytest.fail("nothing should be fitted"))
    Path("full").mkdir()
    Path("full", "report.html").write_text("mine")
    os.symlink("nowhere", "dangling")
    os.symlink("full", "link")
    places = [
        "good.csv",
        "full",
        "link",
        "dangling",
        "good.csv/x",
        "/dev/null",
        "/dev/null/x",
        "/proc/x",
        "nul\0byte",
        "a" * 300,
    ]
    for place in places:
        refused("fit", "good.csv", "-o", place, codes=(1,))
        refused("demo", "-o", place, codes=(1,))
    Path("full", "report.html").unlink()
    Path("full", "report.html").mkdir()
    refused("fit", "good.csv", "-o", "full", "--overwrite", codes=(1,))


@pytest.mark.parametrize("command", ["sample", "suggest", "report"])
def test_files_go_only_where_nothing_is_in_the_way(command):
    os.symlink("good.csv", "link.csv")
    os.symlink("nowhere.csv", "dangling.csv")
    places = ["good.csv", ".", "link.csv", "dangling.csv", "nowhere/x.csv", "good.csv/x.csv", "/dev/null", "nul\0b.csv"]
    for place in [*places, "a" * 300 + ".csv"]:
        refused(command, "posterior.npz", "-o", place, codes=(1,))
    for place in [".", "link.csv", "dangling.csv", "/dev/null", "/dev/stdout"]:
        refused(command, "posterior.npz", "-o", place, "--overwrite", codes=(1,))
    assert os.path.islink("link.csv")


@pytest.mark.parametrize("place", ["/dev/zero", "/dev/null", "pipe"])
def test_pipes_and_devices_are_not_read(place):
    if place == "pipe":
        os.mkfifo(place)
    for command in ("audit", "sample", "report"):
        check_refused(call(command, place), (1,))
    check_refused(call("audit", "good.csv", "--config", place), (1,))


# Real processes


def run(*arguments: str | bytes, environment: dict[str, str] | None = None, **options) -> subprocess.CompletedProcess:
    settings = {**os.environ, "PYTHONPATH": str(SOURCES), "OPENBLAS_NUM_THREADS": "1", **(environment or {})}
    command = [sys.executable, "-m", "vsbq", *arguments]
    return subprocess.run(command, env=settings, capture_output=True, check=False, timeout=120, **options)


def test_a_real_process_refuses_bytes_that_are_no_text():
    done = run("audit", b"\xff\xfe\n.csv", "--json", environment={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 1
    assert "udcff" in json.loads(done.stderr)["error"]["message"]
    assert done.stdout == b""


def test_whoever_reads_may_have_enough():
    command = f"{sys.executable} -m vsbq sample posterior.npz -n 200000 | head -1"
    environment = os.environ | {"PYTHONPATH": str(SOURCES)}
    shell = ["bash", "-o", "pipefail", "-c", command]
    done = subprocess.run(shell, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "a,b\n", "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_is_said():
    with open("/dev/full", "wb") as full:
        settings = {**os.environ, "PYTHONPATH": str(SOURCES)}
        command = [sys.executable, "-m", "vsbq", "sample", "posterior.npz"]
        done = subprocess.run(command, env=settings, stdout=full, stderr=subprocess.PIPE, check=False, timeout=120)
    assert done.returncode == 1
    assert done.stderr.startswith(b"vsbq: ")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_permission_denied(here):
    Path("secret.csv").write_text("a,b\n")
    Path("secret.csv").chmod(0)
    Path("closed").mkdir(mode=0o500)
    with as_nobody():
        for arguments in (
            ["audit", "secret.csv"],
            ["sample", "secret.csv"],
            ["audit", "good.csv", "--config", "secret.csv"],
            ["fit", "good.csv", "-o", "closed/out"],
            ["fit", "good.csv", "-o", "closed"],
            ["sample", "posterior.npz", "-o", "closed/x.csv"],
            ["report", "posterior.npz", "-o", "closed/x.html"],
        ):
            ran = call(*arguments)
            check_refused(ran, (1,))
            assert "ermission" in ran.err, ran
    Path("closed").chmod(0o700)
    assert not list(Path("closed").iterdir())


@contextlib.contextmanager
def as_nobody():
    """Root may do everything, so for a while it is nobody."""
    if os.geteuid() != 0:
        yield
        return
    folder = Path.cwd()
    opened = [path for path in (folder, *folder.parents) if not path.stat().st_mode & 0o001]
    modes = [path.stat().st_mode for path in opened]
    for path in opened:
        path.chmod(path.stat().st_mode | 0o055)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        for path, mode in zip(opened, modes, strict=True):
            path.chmod(mode)
