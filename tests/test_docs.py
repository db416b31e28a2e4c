"""The documentation is true: its code runs, its links lead somewhere, what it names exists, and the site builds."""

from __future__ import annotations

import logging
import os
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import vsbq
from vsbq.cli import COMMANDS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
THREE_LINES = "**From here to the posterior:**\n\n"

#: Pages whose blocks of Python, and of the shell where SHELL says so, run one after the other.
FAST = [
    "README.md",
    *(
        f"docs/{name}.md"
        for name in ("assistants", "bounds", "did_it_work", "files", "guide", "modes", "prior", "quickstart", "report")
    ),
]
SLOW = [
    f"docs/{name}.md"
    for name in (
        "cli",
        "comparison",
        "handover",
        "loss",
        "many",
        "matlab_r_julia",
        "next",
        "noise",
        "scale",
        "troubleshooting",
    )
]
SHELL = {"cli.md", "matlab_r_julia.md", "next.md", "processes.md"}
EXCERPTS = {"docs/index.md"}  # not complete by themselves


class Block(NamedTuple):
    """A fenced block of a page: its language, its text, and the number of its first line."""

    language: str
    source: str
    line: int
    three_lines: bool  # whether this is the way from a finished optimisation to the posterior


def blocks_of(text: str) -> list[Block]:
    """All blocks of Python and of the shell."""
    found = re.finditer(r"^```(python|sh)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [
        Block(b.group(1), b.group(2), text.count("\n", 0, b.start(2)), text[: b.start()].endswith(THREE_LINES))
        for b in found
    ]


def run(page: Path, after: Callable[[Block, dict[str, Any]], None] = lambda block, names: None) -> int:
    """Execute the blocks of a page in the current folder; errors point to the page's own lines. Returns their number.

    A block that begins with the name of a script, as a comment, becomes that script.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    count = 0
    for block in blocks_of(page.read_text(encoding="utf-8")):
        if block.language == "sh" and page.name not in SHELL:
            continue
        if block.language == "sh":
            in_shell(block.source)
        elif script := re.match(r"# (\w+\.py)\n", block.source):
            Path(script.group(1)).write_text(block.source, encoding="utf-8")
        else:
            exec(compile("\n" * block.line + block.source, str(page), "exec"), names)
        after(block, names)
        count += 1
    return count


def in_shell(source: str) -> None:
    """Run lines of the shell, with the Python of this test and the sources beside it."""
    tools = Path("tools")
    tools.mkdir(exist_ok=True)
    for name, command in (("python", ""), ("vsbq", " -m vsbq")):
        tool = tools / name
        tool.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)}{command} "$@"\n')
        tool.chmod(0o755)
    paths = {"PATH": f"{tools.absolute()}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", source], env=os.environ | paths, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, f"{source}\n{done.stdout}\n{done.stderr}"


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """An empty folder to work in, and the loggers as they were."""
    monkeypatch.chdir(tmp_path)
    root, ours = logging.getLogger(), logging.getLogger("vsbq")
    handlers, level = list(root.handlers), ours.level
    yield tmp_path
    root.handlers[:] = handlers
    ours.setLevel(level)


@pytest.mark.parametrize("name", [*FAST, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_the_code_of_a_page_runs(name, elsewhere):
    page = ROOT / name
    if not page.exists():
        pytest.skip(f"there is no {name} beside these tests")
    with warnings.catch_warnings():
        if name == "docs/handover.md":  # other people's libraries warn
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", vsbq.VsbqWarning)
        if name == "docs/next.md":  # its first fit is doubtful, and the page says so
            warnings.simplefilter("ignore", vsbq.VsbqWarning)
        assert run(page) > 0


def test_no_page_with_code_is_forgotten():
    recipes = {f"docs/recipes/{path.name}" for path in (DOCS / "recipes").glob("*.md")}
    pages = {str(path.relative_to(ROOT)) for path in [ROOT / "README.md", *DOCS.rglob("*.md")]}
    coded = {name for name in pages if "```python" in (ROOT / name).read_text(encoding="utf-8")}
    assert coded == {*FAST, *SLOW, *EXCERPTS, *(recipes - {"docs/recipes/index.md"})}


def test_a_mistake_on_a_page_is_found(elsewhere):
    page = elsewhere / "page.md"
    page.write_text("Text\n\n```python\nx = 1\n```\n\n```sh\nnot python\n```\n\n```python\nassert x == 2\n```\n")
    with pytest.raises(AssertionError) as caught:
        run(page)
    assert caught.traceback[-1].lineno + 1 == 12
    shell = elsewhere / "cli.md"
    shell.write_text("```sh\nvsbq nonsense\n```\n")
    with pytest.raises(AssertionError, match="nonsense"):
        run(shell)


# Links


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ +(.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def dead_links(page: Path) -> list[str]:
    dead = []
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]+)?\)", page.read_text(encoding="utf-8")):
        place = page.parent / target if target else page
        if not place.exists() or (anchor and place.suffix == ".md" and anchor[1:] not in anchors(place)):
            dead.append(target + anchor)
    return dead


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *DOCS.rglob("*.md")], ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    assert dead_links(page) == []


def test_a_dead_link_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One, `two`\n\n[a](page.md#one-two) [b](#one-two) [c](page.md#three) [d](gone.md)\n")
    assert dead_links(page) == ["page.md#three", "gone.md"]


# What the pages name


def sources() -> str:
    """All string literals of the package run together, as a reader of a message sees them."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "src/vsbq").rglob("*.py")))
    return re.sub(r"\"\s*\n\s*f?\"", "", text)


def missing_words(message: str, said: str) -> list[str]:
    """The parts of a message that the package does not say; dots stand for what varies."""
    plain = re.sub(r" \(`\w+`\)$", "", message)
    return [part for part in map(str.strip, plain.split("…")) if part and part not in said]


def test_the_messages_in_troubleshooting_are_those_of_the_package():
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    tables = page[page.index("### Evaluations") :]
    messages = [
        row for row in re.findall(r"^\| (.+?) \| .+ \| .+ \|$", tables, re.MULTILINE) if row != "the message says"
    ]
    assert len(messages) > 45
    said = sources()
    assert {message: gone for message in messages if (gone := missing_words(message, said))} == {}
    assert missing_words("The moon is … made of cheese", said) == ["The moon is", "made of cheese"]


def test_the_page_on_the_command_line_has_every_command():
    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `vsbq ([\w-]+)", page, re.MULTILINE)) == set(COMMANDS)


def test_every_public_name_is_in_the_reference():
    pages = "".join(path.read_text(encoding="utf-8") for path in (DOCS / "api").glob("*.md"))
    documented = set(re.findall(r"auto(?:class|function|exception|module):: (?:vsbq\.)?(\w+)", pages))
    assert set(vsbq.__all__) - documented == {"__version__"}


def test_every_reader_has_a_recipe():
    recipes = "".join(path.read_text(encoding="utf-8") for path in (DOCS / "recipes").glob("*.md"))
    readers = [name for name in dir(vsbq.Evaluations) if name.startswith("from_")]
    assert len(readers) >= 12
    assert [name for name in readers if f"Evaluations.{name}(" not in recipes] == []


# The site


@pytest.mark.slow
def test_the_site_is_built_without_warnings_and_holds_every_page(site):
    paper = DOCS / "paper" / "paper.md"  # not a page of the site
    pages = {path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md") if path != paper}
    assert [page for page in sorted(pages) if not (site / page).is_file()] == []
    assert "How it works" in (site / "index.html").read_text(encoding="utf-8")
    assert "from_optuna" in (site / "api/input.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_site_loads_nothing_from_the_network(site):
    loads = re.compile(
        r"<(?:script|img|iframe|source)[^>]+src=\"(?:https?:)?//|<link[^>]+stylesheet[^>]+href=\"(?:https?:)?//"
    )
    pages = list(site.rglob("*.html"))
    assert len(pages) > 35
    assert [page.name for page in pages if loads.search(page.read_text(encoding="utf-8"))] == []
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert not re.search(r"url\([\"']?https?:|@import [\"']?(url\()?[\"']?https?:", styles)
    assert loads.search('<script src="https://example.org/x.js">')


# Examples


@pytest.mark.slow
@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_an_example_runs(script, tmp_path):
    options = ["--out", str(tmp_path)] if "--out" in script.read_text(encoding="utf-8") else []
    env = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(script), *options], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    says = {"two_moons": "Distance from the truth", "noisy_simulator": "exact means", "optuna_study": "half-life"}
    assert says.get(script.stem, "exact log evidences") in done.stdout
    if script.stem == "model_comparison":
        off = re.search(r"off by: \[(.+)\]", done.stdout)
        assert off is not None
        assert all(abs(float(number)) < 0.05 for number in off.group(1).split())
