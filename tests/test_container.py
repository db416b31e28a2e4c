"""The file under the posterior file: written whole or not at all, and nothing read before its size is known."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from vsbq.io.files import container
from vsbq.io.files.container import Broken, read, write


class Point(NamedTuple):
    name: str
    weight: float = 1.0


class Header(NamedTuple):
    format: str
    format_version: int
    rows: int
    points: tuple[Point, ...]
    best: Point | None
    pair: tuple[str, float]
    seconds: dict[str, float]
    done: bool


HEADER = Header("sketch", 1, 3, (Point("a", 0.1), Point("b", float("inf"))), None, ("c", 1e-300), {"fit": 2.5}, True)
ARRAYS = {"values": np.array([[0.1, -np.inf], [np.nan, 5e-324], [1e308, -0.0]])}


def shapes(header: Header) -> dict[str, tuple[int, ...]]:
    return {"values": (header.rows, 2)}


def load(path: Path):
    with path.open("rb") as stream:
        return read(stream, Header, shapes, format_name="sketch", version=1)


@pytest.fixture
def path(tmp_path) -> Path:
    write(tmp_path / "sketch.npz", HEADER, ARRAYS)
    return tmp_path / "sketch.npz"


def replaced(path: Path, name: str, content: bytes) -> None:
    """Put other bytes in the place of one array."""
    with zipfile.ZipFile(path) as archive:
        entries = {each: archive.read(each) for each in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, old in entries.items():
            archive.writestr(each, content if each == name else old)


def test_header_and_arrays_come_back_to_the_bit(path):
    header, arrays = load(path)
    assert header == HEADER
    assert type(header.points[0]) is Point
    assert arrays["values"].tobytes() == ARRAYS["values"].tobytes()


def test_numpy_reads_it_without_pickles(path):
    with np.load(path, allow_pickle=False) as file:
        assert file["header"].dtype == np.uint8
        np.testing.assert_array_equal(file["values"], ARRAYS["values"])


def test_failed_write_leaves_the_old_file_and_nothing_else(path, monkeypatch):
    before = path.read_bytes()

    def full_disk(stream, **arrays):
        stream.write(b"half of it")
        raise OSError("No space left on device")

    monkeypatch.setattr(container.np, "savez_compressed", full_disk)
    with pytest.raises(OSError, match="No space"):
        write(path, HEADER, ARRAYS)
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["header.npy", "values.npy"])
def test_zip_bomb_is_refused_before_it_is_unpacked(path, name):
    replaced(path, name, bytes(2**25))
    assert path.stat().st_size < 2**17
    with pytest.raises(Broken, match="more than it can need"):
        load(path)


def test_header_that_claims_too_much(tmp_path):
    write(tmp_path / "sketch.npz", HEADER._replace(rows=10**12), ARRAYS)
    with pytest.raises(Broken, match="far larger than the file"):
        load(tmp_path / "sketch.npz")


def test_shape_that_is_not_that_of_the_header(path):
    lie = io.BytesIO()
    np.lib.format.write_array_header_1_0(lie, {"descr": "<f8", "fortran_order": False, "shape": (10**13,)})
    replaced(path, "values.npy", lie.getvalue())
    with pytest.raises(Broken, match="shape"):
        load(path)


def test_array_shorter_than_its_shape(path):
    data = io.BytesIO()
    np.save(data, ARRAYS["values"])
    replaced(path, "values.npy", data.getvalue()[:-8])
    with pytest.raises(ValueError, match="reshape"):
        load(path)


def test_other_numbers_do_not_fit_the_checksum(path):
    data = io.BytesIO()
    np.save(data, np.zeros((3, 2)))
    replaced(path, "values.npy", data.getvalue())
    with pytest.raises(Broken, match="checksum"):
        load(path)


def test_deeply_nested_header(tmp_path):
    np.savez(tmp_path / "sketch.npz", header=np.frombuffer(b"[" * 10**6, np.uint8))
    with pytest.raises(RecursionError):
        load(tmp_path / "sketch.npz")


@pytest.mark.parametrize(
    "change", [{"rows": 3.0}, {"rows": True}, {"done": 1}, {"pair": ("c",)}, {"seconds": {"fit": "long"}}, {"best": 3}]
)
def test_header_of_other_types(tmp_path, change):
    write(tmp_path / "sketch.npz", HEADER._replace(**change), ARRAYS)
    with pytest.raises((Broken, ValueError, AttributeError)):
        load(tmp_path / "sketch.npz")
