"""Malformed files: each gives a clear error or, where the damage left it valid, evaluations; no code runs."""

from __future__ import annotations

import gzip
import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from vsbq.data.evaluations import Evaluations
from vsbq.errors import EvaluationsError

BLOCKS, FILES = 10, 70
N = 40

CELLS = [
    *("1e999", "-1e999", "1e308", "-1e308", "1.7976931348623157e308", "5e-324", "1e-400", "nan", "inf", "-inf", ""),
    *("1_000", "0x1p3", "१२", "1,5", "1.5.2", "1e5e5", "--1", "+-3", "1 2", "1d5", "NULL", "None", "TRUE", "1+2j"),
    *("=cmd|' /C calc'!A0", "__import__('os').mkdir('executed')", "$(mkdir executed)", "'; drop table evaluations; --"),
    *(
        '"',
        '""',
        '"open',
        "'",
        "\\",
        "\0",
        "\r",
        "\x1b[2J",
        "\ud7ff",
        "﻿",
        "🙂",
        "a" * 5000,
        "9" * 400,
        "#",
        "%",
        "\x85",
    ),
]
NAMES = [
    *("", " ", "a", "log_density", "log-density", "neg_log_density", "loss", "1.0", "nan", "#a", "🙂", "a" * 4000, "'"),
    *(
        "__class__",
        "log_prior",
        "loglike",
        "log_density_sd",
        "Unnamed: 0",
        "../../x",
        "\x1b[31m",
        "x\u202ey",
        "\ufeffa",
    ),
]
FILE_NAMES = [
    *("fits.csv", "fits.tsv", "fits.txt", "fits", "fits.csv.gz", "fits.npz", "fits.parquet", "fits.db", "fits.pkl"),
    *(
        "$(mkdir executed).csv",
        "; mkdir executed;.csv",
        "-rf",
        "a\nb.csv",
        "\x1b[31mred.csv",
        "' or 1=1 --.csv",
        "%s%n.csv",
    ),
    *(
        "..csv",
        "COM1.csv",
        "u\u0308ber.csv",
        "🙂.csv",
        "{0.__class__}.csv",
        "file:etc.csv",
        "sqlite:x.db",
        "~.csv",
        "*?.csv",
    ),
]


def cells(rng: np.random.Generator) -> list[list[str]]:
    points = rng.normal(size=(N, 2)) * 10.0 ** rng.integers(-3, 4)
    values = -0.5 * np.sum((points / points.std(axis=0)) ** 2, axis=1)
    rows = [[repr(float(x)) for x in row] for row in np.column_stack([points, values])]
    return [["a", "b", "log_density"], *rows]


def pick(rng: np.random.Generator, options: list):
    return options[int(rng.integers(len(options)))]


# Damage to the cells


def odd_cells(table, rng):
    for _ in range(int(rng.integers(1, 6))):
        table[int(rng.integers(1, len(table)))][int(rng.integers(3))] = pick(rng, CELLS)


def odd_column(table, rng):
    column, cell = int(rng.integers(3)), pick(rng, CELLS)
    for row in table[1:]:
        row[column] = cell


def odd_header(table, rng):
    table[0][int(rng.integers(3))] = pick(rng, NAMES)


def doubled_column(table, rng):
    column = int(rng.integers(3))
    for row in table:
        row.insert(int(rng.integers(4)) if rng.random() < 0.3 else 3, row[column])


def ragged(table, rng):
    for _ in range(int(rng.integers(1, 9))):
        row = pick(rng, table)
        row.append("7") if rng.random() < 0.5 else row.pop() if row else None


def without_header(table, rng):
    del table[0]


def few_rows(table, rng):
    del table[int(rng.integers(0, 25)) :]


def huge_and_tiny(table, rng):
    powers = rng.integers(-330, 309, size=3) * (rng.random(3) < 0.7)
    for row in table[1:]:
        row[:] = [f"{cell}e{power}" if "e" not in cell else cell for cell, power in zip(row, powers, strict=True)]


def shuffled_words(table, rng):
    for row in table:
        rng.shuffle(row)


def untouched(table, rng):
    pass


OF_CELLS: list[Callable] = [
    *(odd_cells, odd_cells, odd_column, odd_header, odd_header, doubled_column, ragged, without_header, few_rows),
    *(huge_and_tiny, huge_and_tiny, shuffled_words, untouched, untouched),
]

# Damage to the bytes


def cut(data: bytes, rng) -> bytes:
    return data[: int(rng.integers(len(data) + 1))]


def flipped(data: bytes, rng) -> bytes:
    changed = bytearray(data)
    for place in rng.integers(len(data), size=int(rng.integers(1, 8))) if data else ():
        changed[place] ^= int(rng.integers(1, 256))
    return bytes(changed)


def inserted(data: bytes, rng) -> bytes:
    at = int(rng.integers(len(data) + 1))
    return data[:at] + rng.bytes(int(rng.integers(1, 40))) + data[at:]


def removed(data: bytes, rng) -> bytes:
    start, stop = np.sort(rng.integers(len(data) + 1, size=2))
    return data[:start] + data[stop:]


def repeated(data: bytes, rng) -> bytes:
    return data + data


def garbage(data: bytes, rng) -> bytes:
    return rng.bytes(int(rng.integers(0, 2000)))


def with_odd_start(data: bytes, rng) -> bytes:
    starts = [
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b"\xfe\xff",
        b"\xff\xfe\0\0",
        b"\x80\x04",
        b"PK\x03\x04",
        b"PAR1",
        b"\x1f\x8b\x08",
    ]
    starts += [b"SQLite format 3\0", b"\x93NUMPY\x01\0", b"\0" * 9, b"{", b"#", b'"', b"\n" * 30, b"BZh"]
    return pick(rng, starts) + data


def same(data: bytes, rng) -> bytes:
    return data


OF_BYTES: list[Callable] = [cut, flipped, inserted, removed, repeated, garbage, with_odd_start] + [same] * 9


# Kinds of files


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("executed",)


def as_text(table, rng) -> bytes:
    separator, end = (
        pick(rng, [",", ",", ";", "\t", " ", "|", ", "]),
        pick(rng, ["\n", "\n", "\r\n", "\r", "\n\n", "\v"]),
    )
    text = end.join(separator.join(row) for row in table)
    text = text.replace(".", ",") if rng.random() < 0.1 else text
    coding = pick(rng, ["utf-8"] * 14 + ["utf-8-sig", "utf-16", "utf-16-le", "utf-32", "utf-7", "cp1252", "cp037"])
    return text.encode(coding, errors="replace")


def as_gzip(table, rng) -> bytes:
    return gzip.compress(as_text(table, rng))


def numbers(table) -> np.ndarray:
    def number(cell):
        try:
            return float(cell)
        except ValueError:
            return np.nan

    return np.array([[number(row[i]) if i < len(row) else np.nan for i in range(3)] for row in table[1:]]).reshape(
        -1, 3
    )


def as_npz(table, rng) -> bytes:
    data = numbers(table)
    odd = [
        *(data[:, 2], data[:, 2], data[:-1, 2], data[:, 2].astype(str), data[:, 2] * 1j, data, np.array(3.0)),
        *(
            np.array([Bomb()] * len(data)),
            data[:, 2].astype("f2", copy=False),
            np.zeros(0),
            np.array([b"x"] * len(data)),
        ),
        *(np.zeros(len(data), dtype=[("p", "f8"), ("q", "O")]), np.zeros(len(data), "M8[s]"), data[:, 2] > 0),
    ]
    names = pick(
        rng, [np.array(["a", "b"]), np.array(["a", "a"]), np.array(["a"]), np.array([Bomb()]), np.array([1, 2])]
    )
    stream = io.BytesIO()
    with np.errstate(all="ignore"):
        np.savez(stream, points=data[:, :2], log_density=pick(rng, odd), names=names)
    if rng.random() < 0.2:
        claimed = b"{'descr': '<f8', 'fortran_order': False, 'shape': (%d, 2)}" % pick(rng, [-3, 10**6, 10**18, 2**63])
        with zipfile.ZipFile(stream, "w") as archive:
            archive.writestr(
                pick(rng, ["points.npy", "../points.npy", "/log_density.npy", "x.txt"]),
                b"\x93NUMPY\x01\0v\0" + claimed.ljust(118),
            )
    return stream.getvalue()


def as_parquet(table, rng) -> bytes:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    data = numbers(table)
    header = [*table[0], "c", "d", "e"][:3] if rng.random() < 0.8 else ["a", "a", "log_density"]
    kinds = pick(rng, [["f8"] * 3, ["f8"] * 3, ["f4", "f8", "f2"], ["U9", "f8", "f8"], ["f8", "f8", "?"]])
    columns = [pyarrow.array(data[:, i].astype(kind)) for i, kind in enumerate(kinds)]
    stream = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_arrays(columns, names=header), stream)
    return stream.getvalue()


KINDS: list[Callable] = [as_text] * 6 + [as_gzip, as_npz, as_npz, as_parquet]


def malformed(rng: np.random.Generator) -> bytes:
    table = cells(rng)
    pick(rng, OF_CELLS)(table, rng)
    kind = pick(rng, KINDS) if table else as_text
    with np.errstate(all="ignore"):
        data = kind(table, rng)
    return pick(rng, OF_BYTES)(data, rng)


def usable(ev: Evaluations) -> bool:
    prior = ev.log_prior is None or not np.isnan(ev.log_prior).any()
    return bool(np.isfinite(ev.points).all() and (ev.log_density < np.inf).all() and prior and len(ev) >= 20)


OUR_FAULT = (
    "TypeCheckError",
    "AttributeError",
    "NameError",
    "TypeError",
    "IndexError",
    "AssertionError",
    "RuntimeWarning",
)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_malformed_files(block, tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    refused = 0
    for number in range(FILES):
        rng = np.random.default_rng([7, block, number])
        data = malformed(rng)
        path = Path(pick(rng, FILE_NAMES) if rng.random() < 0.4 else "fits.csv")
        path.write_bytes(data)
        options = {"nonfinite": pick(rng, ["raise", "drop", "floor"]), "check_sign": bool(rng.random() < 0.5)}
        try:
            ev = Evaluations.from_file(path, **options)
        except EvaluationsError as error:
            refused += 1
            words = str(error)
            assert repr(str(path))[1:-1] in words
            assert len(words) > len(repr(str(path))) + 20
            assert len(words) < 2500
            assert not any(word in words for word in OUR_FAULT), words
        else:
            assert usable(ev)
        assert path.read_bytes() == data
        path.unlink()
        assert not list(home.iterdir())
    assert FILES / 3 < refused < FILES


def test_the_undamaged_table_is_read(tmp_path):
    rng = np.random.default_rng(0)
    table = cells(rng)
    path = tmp_path / "fits.csv"
    path.write_text("\n".join(",".join(row) for row in table))
    assert len(Evaluations.from_file(path)) == N
