"""Tables as MATLAB, R and Julia write them: by the lines of the page on these languages, and by their functions."""

from __future__ import annotations

import numpy as np
import pytest

from vsbq.data.evaluations import Evaluations
from vsbq.errors import EvaluationsError

N = 40
X = np.random.default_rng(0).normal(size=(N, 2))
COST = 0.5 * (X**2).sum(axis=1)
NAMES = "offset,slope,neg_log_density"


def lines(form: str, header: str = NAMES, end: str = "\n", last: str | None = None) -> str:
    rows = [form.format(i=i + 1, a=a, b=b, f=f) for i, (a, b, f) in enumerate(zip(*X.T, COST, strict=True))]
    return end.join([header, *rows, *([] if last is None else [last])]) + end


WRITTEN = {
    "MATLAB fprintf, R sprintf": lines("{a:.17g},{b:.17g},{f:.17g}"),
    "MATLAB on Windows": lines("{a:.17g},{b:.17g},{f:.17g}", end="\r\n"),
    "Julia println": lines("{a},{b},{f}"),
    "R write.csv, row.names = FALSE": lines("{a:.15g},{b:.15g},{f:.15g}", '"offset","slope","neg_log_density"'),
    "R write.table, sep tab": lines("{a:.15g}\t{b:.15g}\t{f:.15g}", '"offset"\t"slope"\t"neg_log_density"'),
    "R write.csv2": lines("{a:.15g};{b:.15g};{f:.15g}", '"offset";"slope";"neg_log_density"').replace(".", ","),
    "MATLAB writetable": lines("{a:.15g},{b:.15g},{f:.15g}"),
}


@pytest.mark.parametrize("content", WRITTEN.values(), ids=WRITTEN)
def test_tables_of_other_languages(tmp_path, content):
    path = tmp_path / "trace.csv"
    path.write_text(content, newline="")
    ev = Evaluations.from_file(path)
    np.testing.assert_allclose(ev.points, X, rtol=1e-13)
    np.testing.assert_allclose(ev.log_density, -COST, rtol=1e-13)
    assert ev.names == ("offset", "slope")


@pytest.mark.parametrize("infinite", ["Inf", "inf"])
def test_an_infinite_cost_is_a_density_of_zero(tmp_path, infinite):
    path = tmp_path / "trace.csv"
    path.write_text(lines("{a:.17g},{b:.17g},{f:.17g}", last=f"9,9,{infinite}"))
    assert np.isneginf(Evaluations.from_file(path).log_density[-1])


@pytest.mark.parametrize("missing", ["NaN", "NA", "missing", ""])
def test_missing_values_are_refused_or_dropped(tmp_path, missing):
    path = tmp_path / "trace.csv"
    path.write_text(lines("{a:.17g},{b:.17g},{f:.17g}", last=f"9,9,{missing}"))
    with pytest.raises(EvaluationsError, match=r"row 40|line 42"):
        Evaluations.from_file(path)
    if missing in ("NaN", "NA", ""):
        assert len(Evaluations.from_file(path, nonfinite="drop")) == N


def test_row_names_of_r(tmp_path):
    """The default of write.csv: a first column without a name, which is no parameter, and a note says so."""
    path = tmp_path / "trace.csv"
    path.write_text(lines('"{i}",{a:.15g},{b:.15g},{f:.15g}', '"","offset","slope","neg_log_density"'))
    ev = Evaluations.from_file(path)
    assert ev.names == ("offset", "slope")
    assert ev.notes == ("Left out a column without a name.",)
