"""Print the oldest version of every dependency and extra that pyproject.toml allows, as requirements for pip."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ONE = re.compile(r"([A-Za-z0-9._-]+(?:\[[^\]]*\])?)>=([0-9.]+)")


def lowest(project: dict) -> list[str]:
    """Every `name>=version` as `name==version`; the project's own extras are there by themselves."""
    extras = (line for lines in project["optional-dependencies"].values() for line in lines)
    wanted = [line for line in (*project["dependencies"], *extras) if not line.startswith(f"{project['name']}[")]
    odd = [line for line in wanted if not ONE.fullmatch(line)]
    if odd:
        raise SystemExit(f"No lowest version in {odd}. Write name>=version in pyproject.toml.")
    return list(dict.fromkeys(ONE.sub(r"\1==\2", line) for line in wanted))


if __name__ == "__main__":
    told = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    print("\n".join(lowest(told["project"])))
