"""Where a file lies: SQLite's WAL does not work across machines, so network drives must be known."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["network_drive"]

MOUNTS = Path("/proc/self/mounts")
NETWORK = re.compile(
    r"nfs\d?|cifs|smb\w*|9p|afs|ceph|lustre|gpfs|beegfs|panfs|pvfs2|orangefs|glusterfs|vboxsf|ncpfs|webdav|davfs"
    r"|fuse\.(sshfs|glusterfs|ceph\w*|s3fs|rclone|gcsfuse|juicefs|davfs\w*)"
)


def network_drive(path: Path, mounts: Path = MOUNTS) -> str | None:
    """The kind of network drive a file is on, in words, or None for a local one (or where there is no telling)."""
    if str(path).startswith("\\\\"):
        return "a network drive"
    try:
        lines = [line.split(" ") for line in mounts.read_text(errors="surrogateescape").splitlines()]
        folder = path.parent.resolve()
    except OSError:
        return None
    places = [(Path(_unescape(line[1])), line[2]) for line in lines if len(line) > 2]
    around = [(len(place.parts), kind) for place, kind in places if folder.is_relative_to(place)]
    # Of several mounts at one place, the last one is seen.
    kind = max(reversed(around), default=(0, ""), key=lambda found: found[0])[1]
    return f"a network drive ({kind})" if NETWORK.fullmatch(kind) else None


def _unescape(place: str) -> str:
    """Mount points are written with octal codes for blanks."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), place)
