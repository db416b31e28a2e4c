"""Execute the tutorials in place, or a copy with other numbers: `python docs/tutorials/execute.py epidemic`.

    python docs/tutorials/execute.py NAME ... [--set STEPS=500] [--then "print(post.mean())"] [--out FOLDER]

Each notebook has one cell with the tag "parameters"; `--set` adds a cell behind it. `--then` adds a cell at the end.
What a notebook writes (recordings, reports) goes to a temporary folder. Needs nbclient, nbformat, ipykernel
and Pillow.
"""

from __future__ import annotations

import argparse
import base64
import tempfile
from io import BytesIO
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from PIL import Image

HERE = Path(__file__).parent
MOST_PIXELS = 1000  # of a side of a picture


def changed(notebook: nbformat.NotebookNode, settings: list[str], then: str | None) -> None:
    """Put the settings behind the cell of the parameters, and one more cell at the end."""
    place = next(i for i, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", []))
    if settings:
        notebook.cells.insert(place + 1, nbformat.v4.new_code_cell("\n".join(settings)))
    if then:
        notebook.cells.append(nbformat.v4.new_code_cell(then))


def execute(notebook: nbformat.NotebookNode) -> None:
    """Run all cells in a fresh kernel; what depends on the day or the machine is removed from the result."""
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(notebook, timeout=900, kernel_name="python3", record_timing=False)
        client.execute(cwd=folder)
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }


def shrink(notebook: nbformat.NotebookNode) -> None:
    """Make pictures small enough for a repository: fewer pixels, and a palette of 255 colours."""
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    for data in (output.data for output in outputs if "image/png" in output.get("data", {})):
        picture = Image.open(BytesIO(base64.b64decode(data["image/png"]))).convert("RGB")
        picture.thumbnail((MOST_PIXELS, MOST_PIXELS))
        stream = BytesIO()
        picture.quantize(255).save(stream, format="png", optimize=True)
        data["image/png"] = base64.b64encode(stream.getvalue()).decode()


def main() -> None:
    """Read the command line and do it."""
    parser = argparse.ArgumentParser(description="Execute tutorials, and keep their outputs.")
    parser.add_argument("names", nargs="+", metavar="NAME", help="of the notebooks, without .ipynb")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="another parameter")
    parser.add_argument("--then", metavar="CODE", help="a cell to be executed at the end")
    parser.add_argument("--out", type=Path, default=HERE, metavar="FOLDER", help="where the results go; else in place")
    options = parser.parse_args()
    for name in options.names:
        notebook = nbformat.read(HERE / f"{name}.ipynb", as_version=4)
        changed(notebook, options.set, options.then)
        execute(notebook)
        shrink(notebook)
        (options.out / f"{name}.ipynb").write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
