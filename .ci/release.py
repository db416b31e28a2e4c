"""Check that a release agrees with itself: `python .ci/release.py [TAG]` prints its section of the changelog.

The version stands in src/vsbq/_version.py. The changelog, CITATION.cff and the conda recipe must name the same.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACES = {
    "src/vsbq/_version.py": r'^__version__ = "([^"]+)"$',
    "CHANGELOG.md": r"^## \[(\d[^\]]*)\] - \d{4}-\d{2}-\d{2}$",
    "CITATION.cff": r"^version: (\S+)$",
    "recipe/recipe.yaml": r'^  version: "([^"]+)"$',
}


def versions(root: Path) -> dict[str, str]:
    """The version that each place names; the newest section of the changelog, "Unreleased" aside."""
    found = {}
    for place, pattern in PLACES.items():
        match = re.search(pattern, (root / place).read_text(encoding="utf-8"), re.MULTILINE)
        found[place] = match.group(1) if match else "none"
    return found


def section(root: Path, version: str) -> str:
    """What the changelog says of a version."""
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    match = re.search(rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## \[|\Z)", text, re.MULTILINE | re.DOTALL)
    return match.group(1).strip() if match else ""


def complaints(root: Path, tag: str | None = None) -> list[str]:
    """What is wrong with a release."""
    found = versions(root)
    wanted = found["src/vsbq/_version.py"]
    odd = [f"{place} names {version}, not {wanted}" for place, version in found.items() if version != wanted]
    if tag is not None and tag != f"v{wanted}":
        odd.append(f"the tag is {tag}, not v{wanted}")
    if tag is not None and section(root, "Unreleased"):
        odd.append("CHANGELOG.md has lines under Unreleased; move them under the version")
    if tag is not None and "[project.urls]" not in (root / "pyproject.toml").read_text(encoding="utf-8"):
        odd.append("pyproject.toml has no [project.urls]; add the addresses of the repository and the documentation")
    if not section(root, wanted):
        odd.append(f"CHANGELOG.md has no lines for {wanted}")
    return odd


if __name__ == "__main__":
    wrong = complaints(ROOT, sys.argv[1] if len(sys.argv) > 1 else None)
    if wrong:
        sys.exit("\n".join(wrong))
    print(section(ROOT, versions(ROOT)["src/vsbq/_version.py"]))
