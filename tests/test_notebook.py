"""In a real notebook: results are tables, plots are pictures, a fit is not silent, and cells can run twice."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pytest

from vsbq.progress import CountedProgress

SOURCES = Path(__file__).parents[1] / "src"
NUMBER = r"-?\b\d+\.?\d*(?:e[-+]\d+)?"

SETUP = """
import numpy as np
import vsbq
rng = np.random.default_rng(0)
points = rng.normal(0, 1.5, (240, 2))
log_density = -0.5 * (points**2).sum(axis=1) - np.log(2 * np.pi)
names = ["a<b>", "laps"]
"""
FIT = "post = vsbq.fit(points, log_density, names=names, seed=1)"
CELLS = {
    "setup": SETUP,
    "fit": FIT,
    "silent": FIT.replace("seed=1", "seed=1, progress=False"),
    "failed": (
        "try:\n    vsbq.fit(points, -1e9 * (points**2).sum(axis=1), names=names, seed=1)\n"
        "except vsbq.FitError as error:\n    print('why:', error)"
    ),
    "post": "post",
    "summary": "post.summary(level=0.95)",
    "audit": "vsbq.audit(post.evaluations)",
    "diagnose": "post.diagnose()",
    "compare": "vsbq.compare({'<i>one</i>': post, 'two': (-3.0, 0.1)}, seed=1)",
    "groups": "vsbq.compare_groups([[-10.0, -12.0], [-9.0, -11.5], [-8.0, -7.5]], models=['<one>', 'two'], seed=1)",
    "check": "post.check(lambda x: -0.5 * (x**2).sum(axis=1) - np.log(2 * np.pi), 200, seed=1)",
    "many": "vsbq.fit_many({'p<1>': post.evaluations}, seed=1)",
    "plot": "post.plot()",
    "checks": "post.plot_diagnosis()",
    "files": "post.report('report.html'), post.save('post.npz')",
    "files again": "post.report('report.html'), post.save('post.npz')",
    "inline": "%matplotlib inline\nimport matplotlib.pyplot as plt\npost.plot()",
    "own figure": "drawn = plt.figure(figsize=(4, 4))\npost.plot(figure=drawn);",
}
TABLES = ("post", "summary", "audit", "diagnose", "compare", "groups", "check", "many")

#: Executed in a process of its own: the warnings of the notebook's libraries are none of ours.
EXECUTE = """
import json, sys
import nbformat
from nbclient import NotebookClient

cells = [nbformat.v4.new_code_cell(source) for source in json.load(sys.stdin)]
notebook = nbformat.v4.new_notebook(cells=cells)
client = NotebookClient(notebook, timeout=300, kernel_name="python3", allow_errors=True)
client.execute(cwd=".")
nbformat.validate(notebook)
print(nbformat.writes(notebook))
"""


def executed(cells, folder):
    """The outputs of each cell, from a kernel of Jupyter."""
    env = os.environ | {"PYTHONPATH": str(SOURCES), "OPENBLAS_NUM_THREADS": "1", "JUPYTER_PLATFORM_DIRS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", EXECUTE],
        input=json.dumps(list(cells)),
        env=env | {"IPYTHONDIR": str(folder / ".ipython")},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    return [cell["outputs"] for cell in json.loads(done.stdout)["cells"]]


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    folder = tmp_path_factory.mktemp("notebook")
    return dict(zip(CELLS, executed(CELLS.values(), folder), strict=True))


class Fragment(HTMLParser):
    """A piece of HTML taken apart: its elements, their styles, its text, and what is not closed."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[str] = []
        self.styles: list[str] = []
        self.open: list[str] = []
        self.words = ""
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.open.append(tag)
        self.styles += [value or "" for name, value in attrs if name == "style"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def html_of(outputs):
    """The HTML that a cell ends with, taken apart."""
    data = outputs[-1]["data"]
    assert "text/html" in data, data
    return Fragment("".join(data["text/html"]))


def test_no_cell_fails(notebook):
    failed = {name: each for name, outputs in notebook.items() for each in outputs if each["output_type"] == "error"}
    assert failed == {}
    assert [name for name, outputs in notebook.items() if any(each.get("name") == "stderr" for each in outputs)] == []


@pytest.mark.parametrize("name", TABLES)
def test_a_result_is_a_table_that_is_readable_in_both_themes(notebook, name):
    found = html_of(notebook[name])
    assert found.open == []
    assert "table" in found.elements
    assert set(found.elements) <= {"div", "table", "thead", "tbody", "tr", "th", "td", "span", "b"}
    for style in found.styles:  # the colour of letters is the theme's, unless their background is ours, too
        assert ("background-color:" in style) == (re.search(r"(?<!-)\bcolor:", style) is not None)


@pytest.mark.parametrize("name", TABLES)
def test_a_result_prints_as_text_too(notebook, name):
    text = "".join(notebook[name][-1]["data"]["text/plain"])
    assert "array(" not in text
    assert "Finding(" not in text
    assert len(text) > 20


def test_names_are_escaped(notebook):
    assert "a<b>" in html_of(notebook["post"]).words
    assert "<i>one</i>" in html_of(notebook["compare"]).words
    assert "<one>" in html_of(notebook["groups"]).words
    assert "p<1>" in html_of(notebook["many"]).words
    assert "a<b>" in html_of(notebook["audit"]).words


def test_what_the_tables_say(notebook):
    post = html_of(notebook["post"]).words
    assert "Posterior of 2 parameters" in post
    assert "log evidence" in post
    assert "trusted" in post
    summary = html_of(notebook["summary"]).words
    assert "2.5 %" in summary
    assert "97.5 %" in summary
    assert "Verdict" in html_of(notebook["diagnose"]).words
    assert "size" in html_of(notebook["audit"]).words


def test_a_plot_is_a_picture_without_any_magic(notebook):
    for name in ("plot", "checks"):
        (output,) = notebook[name]
        assert output["output_type"] == "execute_result"
        assert output["data"]["image/png"].startswith("iVBOR")
        assert 200 < output["metadata"]["image/png"]["width"] < 1400


def test_a_plot_is_one_picture_with_pyplot_too(notebook):
    assert [name for each in notebook["inline"] for name in each["data"] if name == "image/png"] == ["image/png"]
    assert [name for each in notebook["own figure"] for name in each["data"] if name == "image/png"] == ["image/png"]


def test_a_fit_is_not_silent(notebook):
    (shown,) = notebook["fit"]
    assert shown["output_type"] == "display_data"
    assert re.search(r"vsbq: done, \d+\.\d s", Fragment("".join(shown["data"]["text/html"])).words)
    assert "".join(shown["data"]["text/plain"]).startswith("vsbq: done")  # in consoles that show no HTML
    shown, *said = notebook["failed"]
    assert "ended with" in "".join(shown["data"]["text/html"])
    assert "why:" in "".join(said[0]["text"])
    assert notebook["silent"] == []


def test_a_cell_that_writes_files_runs_twice(notebook):
    first, again = ("".join(notebook[name][-1]["data"]["text/plain"]) for name in ("files", "files again"))
    assert "report.html" in first
    assert again == first


def test_the_check_of_cells_can_fail(tmp_path):
    pytest.importorskip("nbclient")
    (outputs,) = executed(["1 / 0"], tmp_path)
    assert outputs[-1]["ename"] == "ZeroDivisionError"


# Outside of notebooks


def script(source, folder, *options):
    env = os.environ | {"PYTHONPATH": str(SOURCES), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, *options, "-c", SETUP + source]
    return subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=300)


def test_where_output_is_piped_there_is_a_line_for_each_stage(tmp_path):
    done = script(FIT + "\nprint(post)", tmp_path)
    assert done.stdout.startswith("Posterior of 2 parameters")
    lines = done.stderr.splitlines()
    stages = ["trim", "surrogate", "mixture", "refinement", "diagnosis"]
    assert [re.match(r"vsbq: (\w+)", line).group(1) for line in lines] == [*stages, "done"]
    assert "(2 of 5)" in lines[1]


def test_no_progress_is_no_output(tmp_path):
    done = script(FIT.replace("seed=1", "seed=1, progress=False"), tmp_path)
    assert (done.stdout, done.stderr) == ("", "")


def test_a_python_without_stderr_still_fits(tmp_path):
    done = script("import sys\nsys.stderr = None\n" + FIT + "\nprint('there')", tmp_path)
    assert done.stdout == "there\n"


def test_many_fits_are_counted_now_and_then(capsys, monkeypatch):
    monkeypatch.setattr("vsbq.progress.LEAST_BETWEEN", 0.0)
    for show in (None, False):
        progress = CountedProgress(2, show)
        progress.count("one")
        progress.count("two")
        progress.close()
        lines = capsys.readouterr().err.splitlines()
        assert [line.split(",")[0] for line in lines] == (
            ["vsbq: 1 of 2 fits done", "vsbq: 2 of 2 fits done"] if show is None else []
        )


def test_many_fits_that_are_done_soon_say_nothing(capsys):
    progress = CountedProgress(1, None)
    progress.count("one")
    progress.close()
    assert capsys.readouterr().err == ""


def differences(promised, printed, tolerance=0.1):
    """Lines of two summaries with other words, or with a number that is off by more than a share of the largest one."""
    found = []
    for one, other in zip_longest(promised.splitlines(), printed.splitlines(), fillvalue=""):
        numbers, others = ([float(each) for each in re.findall(NUMBER, line)] for line in (one, other))
        words, others_words = (re.sub(NUMBER, "", line).split() for line in (one, other))
        near = len(numbers) == len(others) and np.allclose(
            numbers, others, rtol=0, atol=tolerance * max(map(abs, numbers), default=0)
        )
        found += [] if near and words == others_words else [(one, other)]
    return found


def test_differences_are_found():
    text = "      mean    sd\na     1.0   2.0\nverdict: trusted\n"
    assert differences(text, text.replace("1.0", "1.1")) == []
    for other in (text.replace("1.0", "1.3"), text.replace("trusted", "doubtful"), text + "more\n", text[:20]):
        assert differences(text, other) != []


def test_the_example_of_the_readme_runs_twice_in_the_same_folder(tmp_path):
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    example = re.search(r"^```python\n(.*?)^```$", readme, flags=re.MULTILINE | re.DOTALL).group(1)
    (tmp_path / "example.py").write_text(example, encoding="utf-8")
    env = os.environ | {"PYTHONPATH": str(SOURCES), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error", "example.py"]
    promised = re.search(r"^```text\n(.*?)^```$", readme, flags=re.MULTILINE | re.DOTALL).group(1)
    for _ in range(2):
        done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=500)
        assert done.returncode == 0, done.stderr
        assert differences(promised, done.stdout) == []
    assert (tmp_path / "report.html").stat().st_size > 10_000
