"""Names that pages mention in passing exist: `vsbq.X`, `post.x`, `Settings(x=...)` and their arguments."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vsbq

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "VISION")),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "docs").rglob("*.ipynb"),
]
UNKNOWN = object()


@pytest.fixture(scope="module")
def known() -> dict[str, Any]:
    """What the first part of a dotted name may be; attributes are looked up in real objects."""
    points = np.random.default_rng(1).normal(0, 2, (100, 1))
    evaluations = vsbq.Evaluations(points, -0.5 * points[:, 0] ** 2, names=["a"])
    found: dict[str, Any] = {name: getattr(vsbq, name) for name in vsbq.__all__ if name[0].isupper()}
    return found | {"vsbq": vsbq, "post": vsbq.fit(evaluations, rng=1, progress=False), "rec": vsbq.Recorder}


def inline_code(page: Path) -> list[str]:
    """The pieces of code within the text of a page, without its blocks."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells)
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return [" ".join(code.split()) for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", text)]


def attribute(owner: Any, name: str) -> Any:
    """The attribute or submodule; None for a field without default, UNKNOWN if there is nothing of that name."""
    if hasattr(owner, name):
        return getattr(owner, name)
    if inspect.ismodule(owner):
        try:
            return importlib.import_module(f"{owner.__name__}.{name}")
        except ImportError:
            return UNKNOWN
    fields = inspect.get_annotations(owner) if inspect.isclass(owner) else {}
    return None if name in fields else UNKNOWN


def resolved(dotted: str, known: dict[str, Any]) -> Any:
    first, *rest = dotted.split(".")
    found = known[first]
    for name in rest:
        found = attribute(found, name)
        if found is None or found is UNKNOWN:
            return found
    return found


def wrong_arguments(code: str, known: dict[str, Any]) -> Iterator[str]:
    """Arguments by name that what is called does not take."""
    try:
        tree = ast.parse(code.replace("…", "..."), mode="eval")
    except SyntaxError:
        return
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = ast.unparse(call.func)
        if not re.fullmatch(r"[\w.]+", name) or name.split(".")[0] not in known:
            continue
        called = resolved(name, known)
        if called is None or called is UNKNOWN:
            continue
        takes = inspect.signature(called).parameters
        if not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in takes.values()):
            yield from (f"{name}({each.arg}=)" for each in call.keywords if each.arg and each.arg not in takes)


def wrong_names(code: str, known: dict[str, Any]) -> list[str]:
    """The names in a piece of code that do not exist; file names such as "post.npz" are in quotes, and no names."""
    words = "|".join(known)
    plain = re.sub(r"\"[^\"]*\"|'[^']*'", "''", code)
    dotted = re.findall(rf"(?<![\w./\-])((?:{words})(?:\.[A-Za-z_]\w*)+)(?![\w/]|\.\w)", plain)
    return [name for name in dotted if resolved(name, known) is UNKNOWN] + list(wrong_arguments(plain, known))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_in_the_text_exist(page, known):
    assert [wrong for code in inline_code(page) for wrong in wrong_names(code, known)] == []


def test_names_that_do_not_exist_are_found(known, tmp_path):
    wrong = {
        "vsbq.infer": ["vsbq.infer"],
        "post.samples": ["post.samples"],
        "post.history.nothing.miss": ["post.history.nothing.miss"],
        "Settings(noise=None)": ["Settings(noise=)"],
        "vsbq.fit(..., noise_sd=1)": ["vsbq.fit(noise_sd=)"],
        "vsbq.Evaluations.from_matlab(path)": ["vsbq.Evaluations.from_matlab"],
    }
    right = ["post.history.noise", 'vsbq.load("post.nothing")', "vsbq.settings.Steps", "Settings(check_noise=False)"]
    assert {code: wrong_names(code, known) for code in wrong} == wrong
    assert [wrong_names(code, known) for code in right] == [[]] * len(right)
    page = tmp_path / "page.md"
    page.write_text("Call `post.\nsamples` now.\n\n```python\npost.gone\n```\n\n`vsbq.infer`\n")
    assert inline_code(page) == ["post. samples", "vsbq.infer"]


def test_llms_txt_leads_to_pages():
    text = (ROOT / "docs" / "_root" / "llms.txt").read_text(encoding="utf-8")
    pages = re.findall(r"\]\(([^)]+)\.html\)", text)
    assert len(pages) > 15
    sources = [(ROOT / "docs" / f"{page}.md", ROOT / "docs" / f"{page}.ipynb") for page in pages]
    assert [page for page, found in zip(pages, sources, strict=True) if not any(path.exists() for path in found)] == []
