"""What a release needs: one version everywhere, files of the forge that parse and name only what exists, a recipe."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

import vsbq

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[1]
FORGE = ROOT / ".github"
if not FORGE.is_dir():
    pytest.skip("these files are only in the repository", allow_module_level=True)

WORKFLOWS = sorted((FORGE / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (FORGE / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
FILES = [
    *(*WORKFLOWS, *FORMS, FORGE / "ISSUE_TEMPLATE/config.yml"),
    *(ROOT / name for name in (".readthedocs.yaml", "recipe/recipe.yaml", "CITATION.cff")),
]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
NEWEST = (3, 14)


def release() -> Any:
    """The script that checks a release."""
    spec = importlib.util.spec_from_file_location("release", ROOT / ".ci/release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def strings(value: Any) -> list[str]:
    """All texts in a YAML file."""
    if isinstance(value, dict):
        return [text for each in value.values() for text in strings(each)]
    if isinstance(value, list):
        return [text for each in value for text in strings(each)]
    return [value] if isinstance(value, str) else []


def commands(path: Path) -> list[str]:
    """The lines of the shell that a workflow, or the host of the documentation, runs."""
    told = read(path)
    if path in WORKFLOWS:
        return [step["run"] for job in told["jobs"].values() for step in job["steps"] if "run" in step]
    return strings(told["build"]["jobs"])


def targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def missing(command: str) -> list[str]:
    """Targets of make, files, extras and groups that a command names and that are not there."""
    words = shlex.split(command)
    odd = [word for word in words[1:] if words[0] == "make" and "=" not in word and word not in targets()]
    files = [word for word in words if re.fullmatch(r"\.?[\w-]+(/[\w.-]+)*\.(py|toml|md|txt)|benchmarks", word)]
    odd += [word for word in files if not (ROOT / word).exists()]
    odd += [word for word in words if word.startswith("./") and not (ROOT / word).exists()]
    extras = {name for found in re.findall(r"\[([a-z,]+)\]", command) for name in found.split(",")}
    odd += [name for name in sorted(extras) if name not in PROJECT["project"]["optional-dependencies"]]
    groups = [words[i + 1] for i, word in enumerate(words[:-1]) if word == "--group"]
    return odd + [name for name in groups if name not in PROJECT["dependency-groups"]]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_yaml_files_parse(path):
    assert isinstance(read(path), dict)


@pytest.mark.parametrize("path", [*WORKFLOWS, ROOT / ".readthedocs.yaml"], ids=lambda path: path.name)
def test_commands_name_only_what_exists(path):
    found = commands(path)
    assert found
    assert {command: gone for command in found if (gone := missing(command))} == {}


@pytest.mark.parametrize("path", sorted(ROOT.glob("*.md")), ids=lambda path: path.name)
def test_targets_of_make_in_pages_exist(path):
    named = set(re.findall(r"`make ([a-z-]+)", path.read_text(encoding="utf-8")))
    named |= set(re.findall(r"^make ([a-z-]+)", path.read_text(encoding="utf-8"), re.MULTILINE))
    assert named - targets() == set()


def test_the_check_of_commands_can_fail():
    assert missing("make lint fly") == ["fly"]
    assert missing("python .ci/gone.py") == [".ci/gone.py"]
    assert missing('pip install -e ".[all,moon]" --group none') == ["moon", "none"]
    assert missing("python -m pytest tests/test_wheel.py tests/test_moon.py") == ["tests/test_moon.py"]


def test_workflows_cover_systems_and_versions():
    jobs = read(FORGE / "workflows/check.yml")["jobs"]
    assert set(jobs) >= {"lint", "docs", "test", "lowest", "package"}
    matrix = jobs["test"]["strategy"]["matrix"]
    assert {name.partition("-")[0] for name in matrix["system"]} == {"ubuntu", "macos", "windows"}
    lowest = tuple(map(int, PROJECT["project"]["requires-python"].removeprefix(">=").split(".")))
    wanted = [f"3.{minor}" for minor in range(lowest[1], NEWEST[1] + 1)]
    assert matrix["python"] == wanted
    told = [each.rpartition(" ")[2] for each in PROJECT["project"]["classifiers"] if ":: 3." in each]
    assert told == wanted


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_have_few_rights_and_jobs_that_exist(path):
    told = read(path)
    assert told["permissions"] == {"contents": "read"}
    for job in told["jobs"].values():
        needs = job.get("needs", [])
        assert ({needs} if isinstance(needs, str) else set(needs)) <= set(told["jobs"])
        assert job.get("permissions", {"id-token": "write"}) == {"id-token": "write"}
    assert "secrets." not in path.read_text(encoding="utf-8")  # trusted publishing needs none


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_issues_ask_for_audit_and_diagnosis(path):
    told = read(path)
    fields = {each["id"]: each for each in told["body"] if "id" in each}
    assert {"audit", "diagnosis"} <= set(fields)
    assert "vsbq.audit(evaluations)" in fields["audit"]["attributes"]["description"]
    assert "post.diagnose()" in fields["diagnosis"]["attributes"]["description"]
    assert callable(vsbq.audit)
    assert callable(vsbq.Posterior.diagnose)


def test_the_documentation_is_where_its_host_looks():
    told = read(ROOT / ".readthedocs.yaml")
    assert (ROOT / told["sphinx"]["configuration"]).is_file()
    assert told["sphinx"]["fail_on_warning"] is True


def test_the_recipe_needs_what_the_project_needs():
    told = read(ROOT / "recipe/recipe.yaml")
    wanted = {re.sub(r"(>=)", r" \1", line) for line in PROJECT["project"]["dependencies"]}
    python = f"python {PROJECT['project']['requires-python']}"
    assert set(told["requirements"]["run"]) == wanted | {python}
    assert python in told["requirements"]["host"]
    script = PROJECT["project"]["scripts"]["vsbq"]
    assert told["build"]["python"]["entry_points"] == [f"vsbq = {script}"]
    assert told["about"]["license"] == PROJECT["project"]["license"]
    assert told["about"]["summary"] == PROJECT["project"]["description"]
    assert (ROOT / told["about"]["license_file"]).is_file()


# The version


def test_there_is_one_version():
    checks = release()
    assert checks.complaints(ROOT) == []
    assert set(checks.versions(ROOT).values()) == {vsbq.__version__}
    assert "version" not in PROJECT["project"]
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert (ROOT / PROJECT["tool"]["hatch"]["version"]["path"]).is_file()
    assert checks.section(ROOT, vsbq.__version__)


def test_a_release_that_disagrees_is_found(tmp_path):
    checks = release()
    for place in checks.PLACES:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / place, tmp_path / place)
    project = tmp_path / "pyproject.toml"
    project.write_text("[project.urls]\n")
    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text(f"# Changelog\n\n## [{vsbq.__version__}] - 2026-01-01\n\n- First.\n")
    assert checks.complaints(tmp_path, f"v{vsbq.__version__}") == []
    assert checks.section(tmp_path, vsbq.__version__) == "- First."
    assert checks.complaints(tmp_path, "v9.9.9") == [f"the tag is v9.9.9, not v{vsbq.__version__}"]
    changelog.write_text(
        f"# Changelog\n\n## [Unreleased]\n\n- More.\n\n## [{vsbq.__version__}] - 2026-01-01\n\n- First.\n"
    )
    assert any("under Unreleased" in each for each in checks.complaints(tmp_path, f"v{vsbq.__version__}"))
    assert checks.complaints(tmp_path) == []
    changelog.write_text("# Changelog\n\n## [9.9.9] - 2026-01-01\n\n- Other.\n")
    odd = checks.complaints(tmp_path)
    assert [each.split(" names ")[0] for each in odd[:1]] == ["CHANGELOG.md"]
    assert any("no lines for" in each for each in odd)
    project.write_text("[project]\n")
    assert any("[project.urls]" in each for each in checks.complaints(tmp_path, f"v{vsbq.__version__}"))
    citation = tmp_path / "CITATION.cff"
    citation.write_text(re.sub(r"^version: .*$", "version: 0.0.1", citation.read_text(), flags=re.MULTILINE))
    assert any(each.startswith("CITATION.cff names 0.0.1") for each in checks.complaints(tmp_path))
