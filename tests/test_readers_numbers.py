"""Numbers in texts: decimal commas and points, thousands, and no guess where two readings are possible."""

from __future__ import annotations

import io
from contextlib import redirect_stderr

import numpy as np
import pytest

from vsbq.cli import main
from vsbq.data.evaluations import Evaluations
from vsbq.errors import EvaluationsError
from vsbq.io.readers.number_format import TextFormat, hint

N = 40
RNG = np.random.default_rng(0)
WHOLE = RNG.integers(1000, 999_999, (N, 2))  # with one group of thousands
VALUES = -RNG.integers(1000, 999_999, N)


def spelled(number: float, thousands: str, decimal: str, places: int) -> str:
    return f"{number:,.{places}f}".replace(",", "T").replace(".", decimal).replace("T", thousands)


def table(tmp_path, thousands="", decimal=".", places=0, separator=";", shift=0.0):
    rows = [["a", "b", "log_density"]]
    rows += [[spelled(x + shift, thousands, decimal, places) for x in row] for row in np.column_stack([WHOLE, VALUES])]
    path = tmp_path / "fits.csv"
    path.write_text("\n".join(separator.join(row) for row in rows), encoding="utf-8")
    return path


def check(ev: Evaluations, points, values) -> None:
    np.testing.assert_allclose(ev.points, points, rtol=1e-12)
    np.testing.assert_allclose(ev.log_density, values, rtol=1e-12)


OPTIONS = {"check_sign": False}


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_one_comma_before_three_digits_can_be_read_in_two_ways(tmp_path, separator):
    path = table(tmp_path, ",", separator=separator)
    first = f"{WHOLE[0, 0]:,}"
    words = rf"'{first}' in line 2 is {first.replace(',', '.')} or {WHOLE[0, 0]}, .* 'a', 'b' and 'log_density'"
    with pytest.raises(EvaluationsError, match=words + r".*Pass decimal=',' if .* or thousands=',' if"):
        Evaluations.from_file(path, **OPTIONS)
    check(Evaluations.from_file(path, thousands=",", **OPTIONS), WHOLE, VALUES)
    check(Evaluations.from_file(path, decimal=",", **OPTIONS), WHOLE / 1000, VALUES / 1000)


def test_so_can_a_point_where_semicolons_separate(tmp_path):
    path = table(tmp_path, ".")
    with pytest.raises(EvaluationsError, match=r"in two ways.*decimal='\.' if the point is decimal, or thousands='\.'"):
        Evaluations.from_file(path, **OPTIONS)
    check(Evaluations.from_file(path, thousands=".", **OPTIONS), WHOLE, VALUES)
    check(Evaluations.from_file(path, decimal=".", **OPTIONS), WHOLE / 1000, VALUES / 1000)
    check(Evaluations.from_file(table(tmp_path, ".", separator=","), **OPTIONS), WHOLE / 1000, VALUES / 1000)


@pytest.mark.parametrize("mark", [",", "."])
def test_one_clear_number_decides(tmp_path, mark):
    """1234,567 and 0,5 have no thousands apart, so that the mark is decimal everywhere."""
    for number, value in (("0.5", 0.5), ("1234.567", 1234.567), ("1.25", 1.25), ("1.5e3", 1500.0)):
        path = table(tmp_path, mark)
        path.write_text(path.read_text() + f"\n{number.replace('.', mark)};1;-1")
        ev = Evaluations.from_file(path, **OPTIONS)
        assert ev.points[-1, 0] == value
        np.testing.assert_allclose(ev.points[:N], WHOLE / 1000)


@pytest.mark.parametrize(
    ("thousands", "decimal", "told"),
    [
        (".", ",", {"thousands": "."}),
        (".", ",", {"thousands": ".", "decimal": ","}),
        (" ", ",", {"thousands": " ", "decimal": ","}),
        ("\u00a0", ",", {"thousands": " ", "decimal": ","}),
        ("\u202f", ",", {"thousands": " ", "decimal": ","}),
        ("'", ".", {"thousands": "'"}),
        ("\u2019", ".", {"thousands": "'"}),
        (",", ".", {"thousands": ","}),
    ],
)
def test_thousands_of_many_countries(tmp_path, thousands, decimal, told):
    """As in 1.234,5 or 1 234,5 or 1'234.5: refused with what to pass, and read when it is passed."""
    path = table(tmp_path, thousands, decimal, places=2, shift=0.25)
    with pytest.raises(EvaluationsError, match=r"thousands=") as refused:
        Evaluations.from_file(path, **OPTIONS)
    named = next(iter(told.values()))
    assert f"thousands={named!r}" in str(refused.value)
    check(Evaluations.from_file(path, **told, **OPTIONS), WHOLE + 0.25, VALUES + 0.25)


def test_quoted_thousands_between_commas(tmp_path):
    path = tmp_path / "fits.csv"
    rows = [f'"{a:,}","{b:,}",{v}' for (a, b), v in zip(WHOLE, VALUES, strict=True)]
    path.write_text("\n".join(["a,b,log_density", *rows]))
    with pytest.raises(EvaluationsError, match=r"no number.*If ',' separates thousands, pass thousands=','"):
        Evaluations.from_file(path, **OPTIONS)
    check(Evaluations.from_file(path, thousands=",", **OPTIONS), WHOLE, VALUES)


def test_a_column_of_thousands_is_not_left_out_as_text(tmp_path):
    """One parameter with thousands apart beside plain ones must not vanish with a note."""
    path = tmp_path / "fits.csv"
    rows = [f"{a:,};{b};{v}".replace(",", " ") for (a, b), v in zip(WHOLE, VALUES, strict=True)]
    path.write_text("\n".join(["a;b;log_density", *rows]))
    with pytest.raises(EvaluationsError, match=r"in column 'a', which is no number.*thousands=' '"):
        Evaluations.from_file(path, **OPTIONS)
    assert Evaluations.from_file(path, params=["b"], **OPTIONS).names == ("b",)


def test_groups_must_be_of_three_digits(tmp_path):
    path = table(tmp_path, ",")
    path.write_text(path.read_text() + "\n1,5;2;-3")
    with pytest.raises(EvaluationsError, match=r"line 42 has '1,5' in column 'a', which is no number"):
        Evaluations.from_file(path, thousands=",", **OPTIONS)


def test_commas_and_points_together(tmp_path):
    path = tmp_path / "fits.csv"
    path.write_text("a;b;log_density\n" + "1,234;0.5;-1\n" * 30)
    with pytest.raises(EvaluationsError, match=r"line 2 has a comma in a number and line 2 a point.*thousands=','"):
        Evaluations.from_file(path)


def test_a_point_in_a_text_is_no_decimal_point(tmp_path):
    path = tmp_path / "fits.csv"
    x = RNG.normal(size=(N, 2))
    rows = [f"{a:.6f};{b:.6f};{-a * a - b * b:.6f}".replace(".", ",") + ";run.1" for a, b in x]
    path.write_text("\n".join(["a;b;log_density;remark", *rows]))
    np.testing.assert_allclose(Evaluations.from_file(path).points, x, atol=1e-6)


def test_options_that_make_no_sense(tmp_path):
    path = table(tmp_path)
    for told, words in (
        ({"decimal": ";"}, r"decimal is ';'\. Use '\.' or ','"),
        ({"thousands": "x"}, "thousands is 'x'. Use one of"),
        ({"decimal": ",", "thousands": ","}, "both ','"),
    ):
        with pytest.raises(EvaluationsError, match=words):
            Evaluations.from_file(path, **told)
    assert TextFormat().spelling() is None


@pytest.mark.parametrize("cell", ["1.5", "abc", "1,2,3", "12 34", "1.234.5", "1,23", "", "1 234 56", "nan"])
def test_no_hint_for_what_has_no_thousands(cell):
    assert hint(cell) == ""


def test_the_command_line_names_its_options(tmp_path):
    path = table(tmp_path, ",")
    said = io.StringIO()
    with redirect_stderr(said):
        assert main(["audit", str(path)]) == 1
    assert "Pass --decimal ',' if the comma is decimal, or --thousands ',' if" in said.getvalue()
    assert main(["audit", str(path), "--thousands", ","]) == 0
    (tmp_path / "problem.toml").write_text('[input]\nthousands = ","')
    assert main(["audit", str(path), "--config", str(tmp_path / "problem.toml")]) == 0
