"""Small files that claim or unpack to a lot: refused with words, in little memory and time; and Parquet's checksums."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import vsbq
from vsbq.cli.output import write_table
from vsbq.data.evaluations import Evaluations
from vsbq.errors import EvaluationsError
from vsbq.io.files.posterior_file import PosteriorFileError
from vsbq.io.readers import limits

N = 3000
RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(N, 2))
VALUES = -0.5 * (POINTS**2).sum(axis=1)

#: Megabytes that a reader may need beyond what Python and its libraries take.
FREE = 150

CHILD = """
import re, sys
import numpy, scipy.optimize, vsbq
from vsbq.data.evaluations import Evaluations
from vsbq.io.readers import tables
for name in sys.argv[3].split():
    __import__(name)
def peak():  # of this process alone, unlike what getrusage tells
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) // 1024
before = peak()
try:
    made = getattr(Evaluations, sys.argv[2])(sys.argv[1])
    said = f"read {len(made)}"
except vsbq.errors.EvaluationsError as error:
    said = f"refused: {error}"
print(peak() - before)
print(said)
"""


def in_another_process(path: Path, reader: str = "from_file", modules: str = "", child: str = CHILD) -> tuple[int, str]:
    """Megabytes that reading took, and what came of it."""
    if not Path("/proc/self/status").exists():
        pytest.skip("this system does not tell the memory of a process")
    environment = {**os.environ, "PYTHONPATH": str(Path(vsbq.__file__).parents[1]), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", child, str(path), reader, modules],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    took, said = done.stdout.split("\n", 1)
    return int(took), said


def zip_of(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def npy(shape: tuple[int, ...], kind: str, content: bytes = b"") -> bytes:
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}}}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content


def test_text_beside_numbers_in_parquet_costs_nothing(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    text = pyarrow.array(["x" * 190_000] * N)
    columns = {"a": POINTS[:, 0], "b": POINTS[:, 1], "log_density": VALUES, "remark": text}
    parquet.write_table(pyarrow.table(columns), tmp_path / "fits.parquet", compression="zstd")
    assert (tmp_path / "fits.parquet").stat().st_size < 200_000
    took, said = in_another_process(tmp_path / "fits.parquet", modules="pyarrow.parquet")
    assert said.startswith(f"read {N}")
    assert took < FREE


def test_text_beside_numbers_in_npz_costs_nothing(tmp_path):
    text = np.full(200, "x" * 300_000)  # 240 MB, and little when it is compressed
    np.savez_compressed(tmp_path / "fits.npz", points=POINTS[:200], log_density=VALUES[:200], remark=text)
    took, said = in_another_process(tmp_path / "fits.npz")
    assert said.startswith("read 200")
    assert took < FREE


def text_bomb(path: Path, start: bytes, part: bytes) -> Path:
    """64 MB of the same, compressed."""
    path.write_bytes(gzip.compress(start + part * (2**26 // len(part)), compresslevel=1))
    return path


#: Files, and the words that refuse them.
BOMBS = {
    "line": (
        lambda to: text_bomb(to / "x.csv.gz", b"a,b,log_density\n", b"1,2,"),
        r"line 2 has more than \d+ characters",
    ),
    "comments": (
        lambda to: text_bomb(to / "x.csv.gz", b"a,b,log_density\n", b"#" * 1000 + b"\n"),
        "far more than its compressed size",
    ),
    "zeros": (lambda to: zip_of(to / "x.npz", {"points.npy": npy((2**24, 3), "<f8", bytes(3 * 2**27))}), "it claims"),
    "claim": (
        lambda to: zip_of(to / "x.npz", {"points.npy": npy((99999999999, 9), "<f8")}),
        "shorter than its header says",
    ),
    "bzip2": (
        lambda to: zip_of(to / "x.npz", {"points.npy": npy((2**20, 2), "<f8", bytes(2**24))}, zipfile.ZIP_BZIP2),
        "in a way that NumPy does not use",
    ),
    "wide": (
        lambda to: zip_of(to / "x.npz", {"points.npy": npy((2, 10**6), "<f8", bytes(16 * 10**6))}),
        r"it has 1000000 columns.*transpose",
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_cost_little(tmp_path, name, monkeypatch):
    make, words = BOMBS[name]
    path = make(tmp_path)
    assert path.stat().st_size < 2**21
    # The limit of what may be unpacked is lower here, so that the test does not take long.
    small = "from vsbq.io.readers import limits; limits.SMALL = 2**25\n"
    took, said = in_another_process(path, child=small + CHILD)
    assert said.startswith("refused")
    assert took < FREE
    monkeypatch.setattr(limits, "SMALL", 2**25)
    with pytest.raises(EvaluationsError, match=words):
        Evaluations.from_file(path)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"target": 1, "params": {"a": ' + "[" * 400_000, "more than 4096 lists and objects"),
        ('{"target": 1, "params": ' + "{}," * 300_000, "more than 4096 lists and objects"),
        ('{"target": "' + "x" * 2**21 + '"}', "has more than 1048575 characters"),
        ('{"target": 1, "params": {"a": ' + "[" * 2000 + "]" * 2000 + "}}", "no JSON|a category"),
    ],
)
def test_giant_lines_of_json_logs(tmp_path, line, words):
    path = tmp_path / "log.json"
    path.write_text(f"{line}\n" * 5)
    took, said = in_another_process(path, "from_bayes_opt")
    assert took < FREE
    assert said.startswith("refused")
    with pytest.raises(EvaluationsError, match=words):
        Evaluations.from_bayes_opt(path)


@pytest.mark.parametrize("digits", [400, 5000, 1_000_000])
def test_giant_integers_of_json_logs(tmp_path, digits):
    lines = [json.dumps({"target": -float(i), "params": {"a": float(i) ** 0.5, "b": float(-i)}}) for i in range(40)]
    lines[3] = '{"target": ' + "-" + "1" * digits + ', "params": {"a": 1, "b": 2}}'
    path = tmp_path / "log.json"
    path.write_text("\n".join(lines))
    ev = Evaluations.from_bayes_opt(path, check_sign=False)
    assert ev.log_density[3] == -np.inf


def test_a_large_log_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MOST_JSON_BYTES", 1000)
    (tmp_path / "log.json").write_text("{}\n" * 1000)
    with pytest.raises(EvaluationsError, match=r"has 3000 bytes, and logs of up to 1000 are read\. Split it"):
        Evaluations.from_bayes_opt(tmp_path / "log.json")


def test_tables_have_a_limit_of_numbers(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    names = ["a", "b", "log_density"]
    rows = np.column_stack([POINTS, VALUES])
    write_table(tmp_path / "fits.csv", names, rows, parquet=False)
    write_table(tmp_path / "fits.parquet", names, rows, parquet=True)
    np.savez(tmp_path / "fits.npz", points=POINTS, log_density=VALUES)
    monkeypatch.setattr(limits, "MOST_NUMBERS", 3 * N)
    for path in tmp_path.iterdir():
        assert len(Evaluations.from_file(path)) == N
    monkeypatch.setattr(limits, "MOST_NUMBERS", 3 * N - 1)
    for path in tmp_path.iterdir():
        with pytest.raises(EvaluationsError, match=r"rows of 3 numbers, more than the 8999 .*Keep fewer rows"):
            Evaluations.from_file(path)


def test_a_thousand_names_too_many(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MOST_COLUMNS", 100)
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f"x{i}" for i in range(101)) + "\n" + ",".join(["1"] * 101))
    with pytest.raises(EvaluationsError, match=r"it has 101 columns, and at most 100 are read.*transpose it"):
        Evaluations.from_file(path)


@pytest.mark.parametrize("reader", ["from_file", "from_bayes_opt", "from_nevergrad", "load"])
def test_pipes_and_devices_are_refused(tmp_path, reader):
    """At once: opening a pipe that nobody writes to would wait for ever."""
    read = vsbq.load if reader == "load" else getattr(Evaluations, reader)
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises((EvaluationsError, PosteriorFileError), match=r"is no file|it is a pipe"):
            read(path)


def test_a_posterior_file_of_another_compression_is_refused(tmp_path):
    path = zip_of(tmp_path / "post.npz", {"header.npy": npy((2**20,), "|u1", bytes(2**20))}, zipfile.ZIP_BZIP2)
    with pytest.raises(PosteriorFileError, match="in a way that vsbq does not use"):
        vsbq.load(path)


# Checksums


def test_parquet_is_written_with_checksums(tmp_path):
    """A flipped byte among the numbers is found when it is read, here and by others."""
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "fits.parquet"
    write_table(path, ["a", "b", "log_density"], np.column_stack([POINTS, VALUES]), parquet=True)
    assert len(Evaluations.from_file(path)) == N
    column = parquet.read_metadata(path).row_group(0).column(0)
    sound = path.read_bytes()
    middle = column.data_page_offset + column.total_compressed_size // 2
    path.write_bytes(sound[:middle] + bytes([sound[middle] ^ 1]) + sound[middle + 1 :])
    with pytest.raises(EvaluationsError, match=r"a checksum in it does not match, so bytes were changed\. Take"):
        Evaluations.from_file(path)


def test_parquet_without_checksums_is_read(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pandas.DataFrame({"a": POINTS[:, 0], "b": POINTS[:, 1], "lp": VALUES}).to_parquet(tmp_path / "fits.parquet")
    assert len(Evaluations.from_file(tmp_path / "fits.parquet")) == N


def test_memory_is_measured(tmp_path):
    """The check of memory can fail."""
    took, _ = in_another_process(tmp_path, child=CHILD.replace("made = ", "made = numpy.ones(2**26); made = "))
    assert took > FREE
