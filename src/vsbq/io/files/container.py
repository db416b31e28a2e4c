"""A header and float64 arrays in one npz file: written whole or not at all, read without trust.

Nothing that is read is executed. The size of everything is known, and checked, before it is read.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import zipfile
import zlib
from collections.abc import Callable, Mapping
from itertools import repeat
from math import prod
from pathlib import Path
from types import NoneType
from typing import Any, BinaryIO, get_args, get_origin, get_type_hints

import numpy as np
from numpy.lib import format as npy

from vsbq._typing import ndarray
from vsbq._version import __version__

__all__ = ["Arrays", "Broken", "header_of", "pack", "place", "read", "write"]

#: Limits on what a file may make us allocate. Log densities hardly compress, so an honest file is not much smaller
#: than its arrays, and a large one that claims to grow by more than this factor is not honest.
HEADER_LIMIT = 2**24
ARRAY_LIMIT = 2**28
EXPANSION_LIMIT = 100

Arrays = dict[str, ndarray]
Shapes = Mapping[str, tuple[int, ...]]


class Broken(Exception):
    """Why a file can't be read, as the end of a sentence, and what to do about it."""


def write(target: Path, header: Any, arrays: Arrays) -> None:
    """Write a header (a named tuple) and arrays; the file appears under its name only when it is complete."""
    place(target, lambda stream: pack(stream, header, arrays))


def pack(stream: io.BufferedIOBase, header: Any, arrays: Arrays) -> None:
    """The bytes of a file."""
    fields = _plain(header)
    fields["checksum"] = _checksum(fields, arrays)
    members: dict[str, Any] = {"header": np.frombuffer(json.dumps(fields).encode(), dtype=np.uint8), **arrays}
    np.savez_compressed(stream, **members)


def place(target: Path, fill: Callable[[io.BufferedIOBase], object]) -> None:
    """Write a file under another name, and give it its own when it is complete and on the disk."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as stream:
            fill(stream)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def read(
    stream: BinaryIO,
    kind: Any,
    shapes_of: Callable[[Any], Shapes],
    *,
    format_name: str,
    version: int,
    as_of_now: Callable[[dict[str, Any]], dict[str, Any]] = dict,
) -> tuple[Any, Arrays]:
    """A header of type `kind` and the arrays that go with it; raises `Broken`, or whatever damage makes zip raise.

    `as_of_now` is given the fields of the header, of any earlier version too, and returns those of this version.
    """
    size = stream.seek(0, io.SEEK_END)
    with zipfile.ZipFile(stream) as archive:
        fields = json.loads(_read_npy(archive, "header", None, HEADER_LIMIT).tobytes())
        _check_format(fields, format_name, version)
        checksum = fields.pop("checksum", None)
        header = _typed(as_of_now(fields), kind)
        shapes = shapes_of(header)
        if min(map(min, shapes.values())) < 1:
            raise Broken("a count in its header is less than one. Take another copy.")
        if 8 * sum(map(prod, shapes.values())) > max(ARRAY_LIMIT, EXPANSION_LIMIT * size):
            raise Broken("its header claims arrays far larger than the file. Don't trust it.")
        arrays = {name: _read_npy(archive, name, shape, 8 * prod(shape) + 1024) for name, shape in shapes.items()}
    if checksum != _checksum(fields, arrays):
        raise Broken("its checksum does not match, so bytes were changed. Take another copy.")
    return header, arrays


def header_of(path: Path) -> dict[str, Any] | None:
    """The fields of the header of a file of `write`, not checked any further; None where it is none."""
    try:
        with path.open("rb") as stream, zipfile.ZipFile(stream) as archive:
            fields = json.loads(_read_npy(archive, "header", None, HEADER_LIMIT).tobytes())
    except (Broken, OSError, ValueError, EOFError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error):
        return None
    return fields if isinstance(fields, dict) else None


def _check_format(fields: Any, format_name: str, known: int) -> None:
    if not isinstance(fields, dict) or fields.get("format") != format_name:
        raise Broken(f"it is an npz file, but not a {format_name}. vsbq.load reads what post.save wrote.")
    version = fields.get("format_version")
    if isinstance(version, int) and version > known:
        raise Broken(
            f"it has format version {version}, written by vsbq {fields.get('vsbq_version')}; this vsbq {__version__} "
            f"knows versions up to {known}. Upgrade vsbq."
        )


def _read_npy(archive: zipfile.ZipFile, name: str, shape: tuple[int, ...] | None, limit: int) -> ndarray:
    """One array of an archive: float64 of a known shape, or bytes of any length if there is none."""
    try:
        member = archive.getinfo(f"{name}.npy")
    except KeyError:
        raise Broken(f"it holds no array '{name}'. vsbq.load reads what post.save wrote.") from None
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise Broken(f"'{name}' is compressed in a way that vsbq does not use. Don't trust it.")
    if member.file_size > limit:
        raise Broken(f"'{name}' claims {member.file_size} bytes, more than it can need. Don't trust it.")
    data = io.BytesIO(archive.read(member))
    npy.read_magic(data)
    found, fortran, dtype = npy.read_array_header_1_0(data)
    wanted = (found if shape is None else shape, np.dtype(np.uint8 if shape is None else "<f8"))
    if fortran or (found, dtype) != wanted:
        raise Broken(f"'{name}' has shape {found} and type {dtype}, not {wanted[0]} and {wanted[1]}.")
    array = np.frombuffer(data.read(), dtype).reshape(found)
    return array.astype(np.uint8 if shape is None else np.float64)


def _checksum(fields: dict[str, Any], arrays: Arrays) -> str:
    digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(np.ascontiguousarray(arrays[name], dtype="<f8").tobytes())
    return digest.hexdigest()


def _plain(value: Any) -> Any:
    """Named tuples as dicts, tuples as lists, NumPy numbers as Python's: what JSON can hold."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def _typed(value: Any, kind: Any) -> Any:
    """The inverse of `_plain`: a JSON value as the type that its field is annotated with, or an error."""
    origin, arguments = get_origin(kind), get_args(kind)
    if NoneType in arguments:
        kind = next(each for each in arguments if each is not NoneType)
        return None if value is None else _typed(value, kind)
    if hasattr(kind, "_fields"):
        kinds = get_type_hints(kind)
        return kind(**{name: _typed(item, kinds[name]) for name, item in value.items()})
    if origin is tuple:
        each = repeat(arguments[0], len(value)) if arguments[-1] is Ellipsis else arguments
        return tuple(_typed(item, one) for item, one in zip(value, each, strict=True))
    if origin is dict:
        return {str(key): _typed(item, arguments[1]) for key, item in value.items()}
    fits = type(value) is kind or (kind is float and type(value) is int)
    if not fits:
        raise Broken(f"its header has {value!r:.60} where {kind.__name__} is due. Take another copy.")
    return value
