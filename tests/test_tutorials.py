"""The tutorials: small files with their outputs, that run in a real kernel and agree with a sampler."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

TUTORIALS = Path(__file__).parents[1] / "docs" / "tutorials"
SOURCES = Path(__file__).parents[1] / "src"
MOST_BYTES = 400_000

#: Numbers in place of those of the cell "parameters", with which a tutorial takes seconds rather than a minute.
SMALL = {
    "psychometric": ("STARTS=20", "STEPS=1000"),
    "q_learning": ("STARTS=4", "LIVE=100"),
    "epidemic": ("GENERATIONS=25", "STEPS=300"),
    "supernova": ("STARTS=8", "LIVE=100"),
}

#: What a tutorial found, and what its sampler found, with the number of independent draws that the latter is worth.
THEN = """
import json
print("FOUND", json.dumps({
    "mean": post.mean().tolist(), "sd": np.sqrt(np.diag(post.cov())).tolist(), "verdict": post.verdict,
    "sampled mean": sampled.mean(axis=0).tolist(), "sampled sd": sampled.std(axis=0).tolist(), "effective": effective,
}))
"""

#: How far a mean may be off, in standard deviations, and a standard deviation, relatively, beside the sampler's error:
#: for exact values, and for those of the noisy simulator (of sd 0.9), of which there are few here.
TOLERABLE = {"epidemic": 0.35}
USUALLY = 0.15


def cells(name):
    return json.loads((TUTORIALS / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]


def off(found, tolerable):
    """By how much the fit and the sampler differ, in units of what may be: below 1 is fine."""
    mean, sd, sampled, sampled_sd = (np.array(found[key]) for key in ("mean", "sd", "sampled mean", "sampled sd"))
    error = 1 / np.sqrt(found["effective"])  # of a mean, in standard deviations; that of an sd is smaller
    return np.maximum(
        np.abs(mean - sampled) / sampled_sd / (tolerable + 4 * error),
        np.abs(np.log(sd / sampled_sd)) / (tolerable + 4 * error),
    )


def test_every_tutorial_is_tested_and_listed():
    names = {path.stem for path in TUTORIALS.glob("*.ipynb")}
    assert names == set(SMALL)
    index = (TUTORIALS / "index.md").read_text(encoding="utf-8")
    assert all(f"({name}.ipynb)" in index and f"\n{name}\n" in index for name in names)


@pytest.mark.parametrize("name", SMALL)
def test_a_tutorial_is_small_and_has_its_outputs(name):
    assert (TUTORIALS / f"{name}.ipynb").stat().st_size < MOST_BYTES
    coded = [cell for cell in cells(name) if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in coded] == list(range(1, len(coded) + 1))
    outputs = [output for cell in coded for output in cell["outputs"]]
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 2
    said = json.dumps(outputs)
    assert "/tmp/" not in said
    assert "/home/" not in said
    assert [output for output in outputs if output["output_type"] == "error" or output.get("name") == "stderr"] == []


@pytest.mark.parametrize("name", SMALL)
def test_every_picture_of_a_tutorial_is_described(name):
    drawn = [cell for cell in cells(name) if "image/png" in json.dumps(cell.get("outputs", []))]
    told = [cell["metadata"].get("mystnb", {}).get("image", {}).get("alt", "") for cell in drawn]
    assert [text for text in told if len(text) < 40] == []
    assert len(set(told)) == len(told)


@pytest.mark.parametrize("name", SMALL)
def test_links_of_a_tutorial_lead_somewhere(name):
    words = "\n".join("".join(cell["source"]) for cell in cells(name) if cell["cell_type"] == "markdown")
    targets = re.findall(r"\]\((?!https?:)([^)#\s]+)", words)
    assert targets
    assert [target for target in targets if not (TUTORIALS / target).exists()] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_a_tutorial_runs_and_agrees_with_its_sampler(name, tmp_path):
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    options = [part for setting in SMALL[name] for part in ("--set", setting)]
    env = os.environ | {"PYTHONPATH": str(SOURCES), "OPENBLAS_NUM_THREADS": "1", "JUPYTER_PLATFORM_DIRS": "1"}
    done = subprocess.run(
        [sys.executable, str(TUTORIALS / "execute.py"), name, *options, "--then", THEN, "--out", str(tmp_path)],
        env=env | {"IPYTHONDIR": str(tmp_path / ".ipython")},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    outputs = json.loads((tmp_path / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"][-1]["outputs"]
    text = "".join("".join(output["text"]) for output in outputs)
    found = json.loads(text.split("FOUND", 1)[1])
    assert found["verdict"] != "rejected"
    assert found["effective"] > 100
    assert (off(found, TOLERABLE.get(name, USUALLY)) < 1).all(), found


def test_a_wrong_result_is_found():
    found = {"mean": [1.0], "sd": [0.5], "sampled mean": [1.02], "sampled sd": [0.52], "effective": 500}
    assert (off(found, USUALLY) < 1).all()
    assert (off(found | {"mean": [1.25]}, USUALLY) > 1).any()
    assert (off(found | {"sd": [0.3]}, USUALLY) > 1).any()
