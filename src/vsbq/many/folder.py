"""A folder of posteriors: each is saved as soon as it is there, and is found again after the run was killed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from vsbq._version import __version__
from vsbq.data.evaluations import Evaluations
from vsbq.errors import Argument, join_words
from vsbq.io.files.container import place
from vsbq.io.files.posterior_file import PosteriorFileError, load_with_origin
from vsbq.io.files.posterior_header import Origin
from vsbq.many.digest import digest_of_evaluations
from vsbq.many.names import check_files, file_of
from vsbq.posterior import Posterior

__all__ = ["Folder", "Found"]


class Found(NamedTuple):
    """A posterior of the folder that need not be fitted again."""

    posterior: Posterior
    origin: Origin
    path: Path

    @property
    def other_version(self) -> bool:
        """Whether another version of the package fitted it."""
        history = self.posterior.history
        return history is None or history.version != __version__


@dataclass(frozen=True)
class Folder:
    """Where posteriors are kept. `overwrite` allows to replace files that are not of the fit in question."""

    path: Path
    overwrite: bool

    @classmethod
    def opened(cls, path: str | os.PathLike[str], names: Sequence[str], overwrite: bool) -> Folder:
        """The folder, made if need be; names whose files would be the same are refused."""
        check_files(names)
        folder = Path(path).absolute()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PosteriorFileError(f"The folder '{folder}' can't be made ({error}). Choose another.") from error
        return cls(folder, overwrite)

    def find(self, evaluations: Evaluations, wanted: Origin, *, any_seed: bool) -> Found | None:
        """The posterior of a fit, if its file holds one of the same evaluations, settings and seed.

        Any other file under its name is an error, unless it may be replaced.
        """
        target = self._target(wanted.name)
        if not os.path.lexists(target):
            return None
        try:
            posterior, origin = load_with_origin(target)
        except (PosteriorFileError, OSError) as error:
            if self.overwrite:
                return None
            raise self._refusal(target, f"it is no posterior that can be read ({error})") from error
        differ = _differences(posterior, origin, evaluations, wanted, any_seed)
        if origin is None or differ:
            if self.overwrite:
                return None
            why = "fit_many did not write it" if origin is None else f"it was made with {join_words(differ)}"
            raise self._refusal(target, why)
        return Found(posterior, origin, target)

    def keep(self, name: str, data: bytes) -> Path:
        """Write the file of a posterior; it appears under its name only when it is complete."""
        target = self._target(name)
        if os.path.lexists(target) and not self.overwrite:
            raise self._refusal(target, "another program wrote it while the fit was done")
        target.parent.mkdir(parents=True, exist_ok=True)
        place(target, lambda stream: stream.write(data))
        return target

    def _target(self, name: str) -> Path:
        return self.path / file_of(name)

    def _refusal(self, target: Path, why: str) -> PosteriorFileError:
        return PosteriorFileError(
            f"'{target}' is in the way: {why}. Move it away, choose another folder, or pass ",
            Argument("overwrite", True),
            " to replace it.",
        )


def _differences(
    posterior: Posterior, origin: Origin | None, evaluations: Evaluations, wanted: Origin, any_seed: bool
) -> list[str]:
    """What a file was made from that is not what is wanted; by the evaluations in it, not by what it says of them."""
    if origin is None:
        return []
    held = posterior.evaluations
    same = {
        "other evaluations": held is not None and digest_of_evaluations(held) == digest_of_evaluations(evaluations),
        "other settings": origin.settings == wanted.settings,
        f"another seed ({origin.seed})": any_seed or origin.seed == wanted.seed,
        f"another name ('{origin.name}')": origin.name == wanted.name,
    }
    return [what for what, equal in same.items() if not equal]
