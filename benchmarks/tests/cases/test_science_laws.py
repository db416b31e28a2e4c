import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from vsbq_bench.cases.science.laws import (
    Beta,
    Cauchy,
    Exponential,
    Gamma,
    HalfCauchy,
    HalfNormal,
    LogNormal,
    Normal,
    Uniform,
    normal_sum,
)

TWINS = [
    (Normal(1.0, 2.0), stats.norm(1.0, 2.0)),
    (LogNormal(3.0, 0.7), stats.lognorm(0.7, scale=3.0)),
    (HalfNormal(2.0), stats.halfnorm(scale=2.0)),
    (Exponential(3.0), stats.expon(scale=3.0)),
    (Uniform(-1.0, 4.0), stats.uniform(-1.0, 5.0)),
    (Beta(1.0, 10.0), stats.beta(1.0, 10.0)),
    (Beta(1.0, 2.0, -1.0, 1.0), stats.beta(1.0, 2.0, loc=-1.0, scale=2.0)),
    (Beta(5.0, 2.0), stats.beta(5.0, 2.0)),
    (Gamma(2.0, 3.0), stats.gamma(2.0, scale=3.0)),
    (Cauchy(2.5), stats.cauchy(scale=2.5)),
    (HalfCauchy(5.0), stats.halfcauchy(scale=5.0)),
]
IDS = [repr(law) for law, _ in TWINS]


@pytest.mark.parametrize(("law", "twin"), TWINS, ids=IDS)
def test_density_and_bounds_are_those_of_scipy(rng, law, twin):
    x = twin.rvs(200, random_state=rng)
    assert_allclose(law.log_pdf(x), twin.logpdf(x), rtol=1e-10, atol=1e-12)
    assert law.bounds == twin.support()


@pytest.mark.parametrize(("law", "twin"), TWINS, ids=IDS)
def test_normal_numbers_become_quantiles(law, twin):
    z = np.linspace(-6.0, 6.0, 41)
    below = z < 0
    x = law.from_normal(z)
    assert_allclose(twin.cdf(x[below]), stats.norm.cdf(z[below]), rtol=1e-6)
    # Quantiles near an upper bound are rounded to its neighbourhood, as any number there is.
    assert_allclose(twin.sf(x[~below]), stats.norm.sf(z[~below]), rtol=1e-6, atol=1e-15)


@pytest.mark.parametrize("law", [law for law, _ in TWINS], ids=IDS)
def test_extreme_normal_numbers_stay_inside(law):
    with np.errstate(all="raise", under="ignore"):
        x = law.from_normal(np.array([-37.0, -15.0, 0.0, 15.0, 37.0]))
    assert np.isfinite(x).all()
    assert (law.bounds[0] <= x).all()
    assert (x <= law.bounds[1]).all()


def test_a_beta_density_is_finite_at_a_bound_that_its_mode_is_at():
    assert_allclose(Beta(1.0, 10.0).log_pdf(np.array([0.0])), np.log(10.0))
    assert_allclose(Beta(4.0, 1.0).log_pdf(np.array([1.0])), np.log(4.0))


def test_residuals_sum_as_normals(rng):
    residual, sd = rng.standard_normal((3, 5)), rng.uniform(0.5, 2.0, (3, 1))
    assert_allclose(normal_sum(residual, sd), stats.norm.logpdf(residual, scale=sd).sum(axis=1))
