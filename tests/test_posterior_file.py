"""The posterior file: exact round trips, and no file that makes `load` do anything but refuse."""

from __future__ import annotations

import json
import pickle
import textwrap
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import vsbq
from vsbq.data.transform import WhitenedSpace
from vsbq.errors import EvaluationsError
from vsbq.io.files import container, posterior_file
from vsbq.io.files.posterior_file import PosteriorFileError, load, save
from vsbq.posterior import Posterior
from vsbq.settings import Steps
from vsbq.steps.mixture.policy import VariationalMixture
from vsbq.steps.surrogate.model import Surrogate
from vsbq.steps.surrogate.shaped_data import SparseGP

SETTINGS = Steps(surrogate=SparseGP(inducing_per_dimension=20), mixture=VariationalMixture(max_components=4))
BOUNDS = {
    "open": None,
    "bounded": [(-4.0, 5.0), (-6.0, 6.0)],
    "half-bounded": {"a": (-5.0, None), "b": (None, 7.0)},
}


def small_posterior(kind: str, seed: int = 0) -> Posterior:
    rng = np.random.default_rng(seed)
    points = np.clip(rng.normal([0.5, -0.5], [1.0, 1.5], (300, 2)), -3.9, 4.9)
    values = 7.0 - 0.5 * ((points - [0.3, -0.2]) ** 2 / [0.5, 1.5]).sum(axis=1)
    noisy = kind == "half-bounded"
    return vsbq.fit(
        points,
        values + 0.1 * rng.standard_normal(300) * noisy,
        log_density_sd=np.full(300, 0.1) if noisy else None,
        bounds=BOUNDS[kind],
        plausible_bounds=[(-2, 2), (-2, 2)] if kind == "bounded" else None,
        names=["a", "b"],
        settings=SETTINGS,
        rng=seed,
    )


@pytest.fixture(scope="module", params=list(BOUNDS))
def posterior(request) -> Posterior:
    return small_posterior(request.param)


@pytest.fixture(scope="module")
def one() -> Posterior:
    return small_posterior("half-bounded")


def in_half(x: np.ndarray) -> np.ndarray:
    return x[:, 0] > x[:, 1]


def in_corner(x: np.ndarray) -> np.ndarray:
    return x.sum(axis=1) < 0.5


@pytest.fixture(scope="module")
def corner() -> Posterior:
    """A normal that ends at a plane, as evaluations of zero density say."""
    x = 1.5 * np.random.default_rng(1).normal(size=(300, 2))
    values = np.where(in_corner(x), -0.5 * (x**2).sum(axis=1), -np.inf)
    return vsbq.fit(x, values, settings=SETTINGS, rng=0, progress=False)


@pytest.fixture(scope="module")
def told() -> Posterior:
    """A normal of which one half is there, as the user says."""
    x = 1.5 * np.random.default_rng(1).normal(size=(400, 2))
    x = x[in_half(x)]
    return vsbq.fit(x, -0.5 * (x**2).sum(axis=1), support=in_half, settings=SETTINGS, rng=0, progress=False)


def with_surrogate(post: Posterior, surrogate: Surrogate) -> Posterior:
    region = replace(post.refined.region, surrogate=surrogate)
    return replace(post, surrogate=surrogate, refined=replace(post.refined, region=region))


def same_answers(a: Posterior, b: Posterior) -> bool:
    x = a.sample(200, rng=1)
    return (
        np.array_equal(x, b.sample(200, rng=1))
        and np.array_equal(a.log_pdf(x), b.log_pdf(x))
        and (a.elbo, a.elbo_sd, a.names, a.bounds) == (b.elbo, b.elbo_sd, b.names, b.bounds)
        and a.summary().to_dict() == b.summary().to_dict()
    )


def identical(a: object, b: object, *, order: bool = True) -> bool:
    """Whether two objects agree in type and in every field, to the last bit, and in the order of arrays in memory."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return np.array_equal(a, b, equal_nan=True) and (a.flags.f_contiguous == b.flags.f_contiguous or not order)
    if is_dataclass(a):
        return all(identical(getattr(a, field.name), getattr(b, field.name), order=order) for field in fields(a))
    if isinstance(a, tuple):
        return len(a) == len(b) and all(identical(*pair, order=order) for pair in zip(a, b, strict=True))
    return a == b


def in_c_order(post: Posterior) -> Posterior:
    """The same with every array of draws and turns in the order in which files hold it."""
    sisters = tuple(each._replace(turn=np.ascontiguousarray(each.turn)) for each in post.surrogate.sisters)
    surrogate = replace(post.surrogate, sisters=sisters)
    region = replace(post.refined.region, surrogate=surrogate)
    refined = replace(post.refined, points=np.ascontiguousarray(post.refined.points), region=region)
    return replace(post, surrogate=surrogate, refined=refined)


# Round trips


def test_round_trip_is_exact(posterior, tmp_path):
    again = load(save(posterior, tmp_path / "post.npz"))
    assert same_answers(posterior, again)
    x = posterior.sample(300, rng=2)
    for before, after in zip(posterior.surrogate.predict(x), again.surrogate.predict(x), strict=True):
        np.testing.assert_array_equal(before, after)


def test_every_field_comes_back(posterior, tmp_path):
    assert identical(in_c_order(posterior), load(save(posterior, tmp_path / "post.npz")))


@pytest.mark.parametrize("rotation", [None, np.array([[1.0, 0.3], [-0.2, 0.9]])], ids=["straight", "rotated"])
def test_surrogate_in_rotated_coordinates(one, tmp_path, rotation):
    plain = one.surrogate.space.plain
    surrogate = replace(one.surrogate, space=plain if rotation is None else WhitenedSpace(plain, rotation))
    turned = with_surrogate(one, surrogate)
    path = save(turned, tmp_path / "post")
    assert identical(in_c_order(turned), load(path))
    if rotation is not None:
        with pytest.raises(PosteriorFileError, match="singular"):
            load(rewritten(path, surrogate_rotation=np.ones((2, 2))))


def test_a_surrogate_is_plain_arrays_and_numbers(one):
    arrays, scalars = one.surrogate.packed()
    assert all(type(part) is np.ndarray and part.dtype == np.float64 for part in arrays.values())
    assert all(np.isfinite(scalar) for scalar in scalars.values())
    again = Surrogate.unpacked(one.surrogate.space, arrays, scalars)
    assert identical(one.surrogate, again)
    for name, part in arrays.items():  # each of them counts
        assert not identical(one.surrogate, Surrogate.unpacked(again.space, arrays | {name: 1.5 * part}, scalars))
    for name, scalar in scalars.items():
        assert not identical(one.surrogate, Surrogate.unpacked(again.space, arrays, scalars | {name: scalar + 1}))


def test_a_surrogate_without_blocks_is_taken_apart(one):
    bare = replace(one.surrogate, without=None, sides=None, sisters=())
    assert identical(bare, Surrogate.unpacked(bare.space, *bare.packed()))


@pytest.mark.parametrize("kept", [(False, 0), (True, 0), (False, 1), (True, 2)])
def test_sides_and_sisters_come_back(one, tmp_path, kept):
    assert len(one.surrogate.sisters) >= 1
    sides, count = kept
    sister = one.surrogate.sisters[0]
    others = (sister, sister._replace(shift=sister.shift + 0.5))[:count]
    part = with_surrogate(one, replace(one.surrogate, sides=one.surrogate.sides if sides else None, sisters=others))
    again = load(save(part, tmp_path / "post"))
    assert identical(in_c_order(part), again)
    assert (again.surrogate.sides is not None, len(again.surrogate.sisters)) == kept


def test_evaluations_come_back(posterior, tmp_path):
    before, after = posterior.evaluations, load(save(posterior, tmp_path / "post.npz")).evaluations
    for name in ("points", "log_density", "log_density_sd"):
        np.testing.assert_array_equal(getattr(before, name), getattr(after, name))
    assert (before.bounds, before.plausible_bounds) == (after.bounds, after.plausible_bounds)
    assert (before.names, before.notes) == (after.names, after.notes)
    assert not after.points.flags.writeable
    assert len(after.take([0, 1])) == 2


def test_the_prior_comes_back(one, tmp_path):
    prior = np.where(np.arange(300) == 7, -np.inf, -1.5)
    values = np.where(np.isneginf(prior), -np.inf, one.evaluations.log_density)
    kept = replace(one, evaluations=replace(one.evaluations, log_density=values, log_prior=prior))
    path = save(kept, tmp_path / "post.npz")
    again = load(path).evaluations
    np.testing.assert_array_equal(again.log_prior, prior)
    np.testing.assert_array_equal(again.log_likelihood, kept.evaluations.log_likelihood)
    for changed, message in (
        (prior + np.nan, "evaluations_log_prior"),
        (np.full(300, -np.inf), "a prior is zero alone"),
    ):
        with pytest.raises(PosteriorFileError, match=message):
            load(rewritten(path, evaluations_log_prior=changed))


def test_files_without_a_word_on_the_prior_are_read(one, tmp_path):
    path = save(one, tmp_path / "post.npz")
    header = json.loads(np.load(path)["header"].tobytes())
    assert header["evaluations"].pop("prior") is False
    assert load(rewritten(path, header={"evaluations": header["evaluations"]})).evaluations.log_prior is None


def test_files_without_a_word_on_the_expected_density_are_read(one, tmp_path):
    """They were refined to the density of the surrogate's mean, and answer so."""
    path = save(one, tmp_path / "post.npz")
    header = json.loads(np.load(path)["header"].tobytes())
    assert header["refined"].pop("most_rise") == one.refined.region.most_rise > 0
    assert load(rewritten(path, header={"refined": header["refined"]})).refined.region.most_rise == 0.0


def test_files_of_version_1_are_read(one, tmp_path):
    """They have neither sides nor sisters nor a support, two other parts of the error, and a factor that is gone."""
    path = save(with_surrogate(one, replace(one.surrogate, sides=None, sisters=())), tmp_path / "post.npz")
    header = json.loads(np.load(path)["header"].tobytes())
    del header["support"], header["surrogate"]["sides"], header["surrogate"]["sisters"]
    del header["refined"]["guessed_variance"]
    parts = ("value", "surrogate_sd", "outside", "monte_carlo_error", "held_out_sd", "untested")
    header["evidence"] = {name: header["evidence"][name] for name in parts} | {"beyond": 0.3, "zeros": 0.4}
    header["surrogate"]["overconfidence"] = 1.5
    again = load(resigned(path, header | {"format_version": 1}))
    assert (again.support, again.surrogate.sides, again.surrogate.sisters) == (None, None, ())
    assert (again.refined.evidence.sides, again.refined.evidence.support_sd) == (0.3, 0.4)
    assert again.refined.region.guessed_variance == np.inf
    assert np.isfinite(again.log_pdf(one.sample(50, rng=1))).all()
    assert identical(again, load(save(again, tmp_path / "again.npz")))  # now of this version
    with pytest.raises(PosteriorFileError, match="damaged"):
        load(resigned(path, header | {"format_version": 2}))


@pytest.mark.parametrize("compact", [False, True])
def test_a_learnt_support_comes_back(corner, tmp_path, compact):
    assert corner.support.surfaces
    path = save(corner, tmp_path / "post", compact=compact)
    again = load(path)
    assert identical(corner.support, again.support, order=False)
    assert same_answers(replace(corner, refined=None) if compact else corner, again)
    assert compact or again.refined.region.support is again.support
    with pytest.raises(EvaluationsError, match="without support="):
        load(path, support=in_corner)


@pytest.mark.parametrize("compact", [False, True])
def test_a_told_support_is_learnt_for_the_file(told, tmp_path, compact):
    path = save(told, tmp_path / "post", compact=compact)
    again = load(path)
    x = np.random.default_rng(3).normal(size=(2000, 2))
    x = x[np.abs(x[:, 0] - x[:, 1]) > 0.2]  # not quite at the edge
    assert again.support.told is None
    np.testing.assert_array_equal(again.support.inside(again.space.forward(x)), in_half(x))
    assert in_half(again.sample(4000, rng=1)).mean() > 0.99
    assert path.read_bytes() == save(told, tmp_path / "again", compact=compact).read_bytes()


@pytest.mark.parametrize("compact", [False, True])
def test_a_told_support_is_exact_if_told_again(told, tmp_path, compact):
    again = load(save(told, tmp_path / "post", compact=compact), support=in_half)
    assert identical(told.support, again.support)
    assert same_answers(replace(told, refined=None) if compact else told, again)
    x = np.random.default_rng(3).normal(size=(2000, 2))
    np.testing.assert_array_equal(np.isneginf(again.log_pdf(x)), ~in_half(x))
    assert compact or again.refined.region.support is again.support


def test_surfaces_beside_a_told_support_come_back(told, corner, tmp_path):
    """Those that were learnt are kept apart from those that stand in for the function."""
    support = replace(corner.support, told=told.support.told)
    region = replace(told.refined.region, support=support)
    both = replace(told, support=support, refined=replace(told.refined, region=region))
    path = save(both, tmp_path / "post")
    assert identical(load(path, support=in_half).support, support, order=False)
    x = np.random.default_rng(3).normal(size=(2000, 2))
    alone = load(path).support.inside(both.space.forward(x))
    assert np.mean(alone == support.inside(both.space.forward(x))) > 0.97


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x[:, 0] < x[:, 1] - 0.5, "% of the posterior"),
        (lambda x: x[0], "support= gave an array"),
        (lambda x: x.nothing, "support= raised AttributeError"),
    ],
)
def test_another_function_is_refused(told, tmp_path, function, message):
    path = save(told, tmp_path / "post", compact=True)
    with pytest.raises(EvaluationsError, match=message):
        load(path, support=function)


def test_a_function_that_cuts_nothing_off_needs_no_surfaces(told, tmp_path):
    support = replace(told.support, told=told.support.told._replace(in_support=lambda x: np.full(len(x), True)))
    path = save(replace(told, support=support, refined=None), tmp_path / "post", compact=True)
    assert load(path).support is None
    assert load(path, support=in_half).support.told.in_support is in_half


def test_refinement_and_posterior_have_one_support(corner, tmp_path):
    with pytest.raises(PosteriorFileError, match="another support"):
        save(replace(corner, support=None), tmp_path / "post")


def test_evaluations_that_the_door_would_refuse_come_back(one, tmp_path):
    few = replace(one, evaluations=one.evaluations.take([0])._with_notes(["Only one is left, né π."]))
    after = load(save(few, tmp_path / "post.npz")).evaluations
    assert len(after) == 1
    assert after.notes == ("Only one is left, né π.",)


def test_zero_densities_come_back(tmp_path):
    points = np.random.default_rng(0).normal(size=(300, 1))
    values = np.where(points[:, 0] > 2, -np.inf, -(points[:, 0] ** 2))
    before = vsbq.fit(points, values, settings=SETTINGS, rng=0)
    after = load(save(before, tmp_path / "post.npz"))
    np.testing.assert_array_equal(after.evaluations.log_density, values)
    assert same_answers(before, after)


def test_compact_file_is_small_and_holds_the_mixture(posterior, tmp_path):
    full, compact = save(posterior, tmp_path / "full"), save(posterior, tmp_path / "compact", compact=True)
    again = load(compact)
    assert again.evaluations is None
    assert again.surrogate is None
    assert again.history == posterior.history
    assert same_answers(replace(posterior, refined=None), again)
    assert (again.log_evidence, again.log_evidence_sd) == (posterior.log_evidence, posterior.log_evidence_sd)
    assert compact.stat().st_size < full.stat().st_size / 3
    assert same_answers(again, load(save(again, tmp_path / "again")))  # what has no surrogate can be saved as well


def test_posterior_without_history(one, tmp_path):
    assert load(save(replace(one, history=None), tmp_path / "post")).history is None


def test_numpy_numbers_in_the_history(one, tmp_path):
    trimmed = one.history.trimmed._replace(kept=np.int64(299))
    history = one.history._replace(trimmed=trimmed, seconds={"trim": np.float64(0.5)})
    assert load(save(replace(one, history=history), tmp_path / "post")).history == history


def test_saving_twice_gives_the_same_bytes(one, tmp_path):
    assert save(one, tmp_path / "a").read_bytes() == save(one, tmp_path / "b").read_bytes()


def test_method_of_the_posterior(one, tmp_path):
    assert same_answers(one, load(one.save(tmp_path / "post")))


def test_surrogate_and_refinement_belong_together(one, tmp_path):
    with pytest.raises(PosteriorFileError, match="another surrogate"):
        save(replace(one, surrogate=replace(one.surrogate, tested=0.5)), tmp_path / "post")


def test_reader_in_the_docstring_draws_from_the_posterior(tmp_path, monkeypatch):
    before = small_posterior("open")
    save(before, tmp_path / "posterior.npz")
    monkeypatch.chdir(tmp_path)
    text = posterior_file.__doc__
    reader = textwrap.dedent(text[text.index("    import json") : text.index("    # v is x")])
    found: dict = {}
    exec(reader.replace("1000", "40_000"), found)
    assert found["header"]["names"] == ["a", "b"]
    assert len(reader.strip().splitlines()) <= 11
    error = np.sqrt(np.diag(before.cov()) / 40_000)
    assert (abs(found["v"].mean(axis=0) - before.mean()) < 5 * error).all()
    np.testing.assert_allclose(np.cov(found["v"].T), before.cov(), rtol=0.1, atol=0.05)


# Paths


def test_suffix_is_added_only_if_there_is_none(one, tmp_path):
    assert save(one, tmp_path / "fit").name == "fit.npz"
    assert save(one, str(tmp_path / "fit.posterior")).name == "fit.posterior"
    assert same_answers(load(tmp_path / "fit"), load(str(tmp_path / "fit.posterior")))


def test_existing_file_is_kept_unless_told_otherwise(one, tmp_path):
    path = tmp_path / "fit.npz"
    path.write_text("precious")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        save(one, path)
    assert path.read_text() == "precious"
    assert save(one, path, overwrite=True) == path
    assert same_answers(one, load(path))


def test_a_posterior_of_the_same_parameters_is_replaced(one, tmp_path):
    path = one.save(tmp_path / "fit.npz")
    first = path.read_bytes()
    changed = replace(one, offset=one.offset + 1.0)
    assert changed.save(path) == path
    assert path.read_bytes() != first
    assert same_answers(changed, load(path))


def test_a_posterior_of_something_else_is_not_replaced(one, tmp_path):
    path = one.save(tmp_path / "fit.npz")
    before = path.read_bytes()
    names = tuple(f"{name} too" for name in one.names)
    for other, why in (
        (replace(one, names=names, evaluations=None), "other parameters"),
        (replace(one, evaluations=None, tag="another study"), "another tag"),
        (replace(one, evaluations=None, surrogate=None), "holds evaluations"),
    ):
        with pytest.raises(FileExistsError, match=f"{why}.*overwrite=True"):
            other.save(path)
    with pytest.raises(FileExistsError, match="holds evaluations"):
        one.save(path, compact=True)
    assert path.read_bytes() == before
    half = path.read_bytes()[: len(before) // 2]
    path.write_bytes(half)
    with pytest.raises(FileExistsError, match="is no posterior"):
        one.save(path)
    with np.load(one.save(path, overwrite=True)) as file:
        arrays = dict(file)
    np.savez(path, points=arrays["mixture_means"])
    with pytest.raises(FileExistsError, match="is no posterior"):
        one.save(path)


def test_errors_of_the_file_system_stay_what_they_are(one, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no file '.*nothing\.npz'\. Check the path\."):
        load(tmp_path / "nothing")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        load(tmp_path)
    with pytest.raises(FileNotFoundError, match="Create it first"):
        save(one, tmp_path / "no such folder" / "fit")


def test_save_refuses_what_load_would_refuse(one, tmp_path):
    means = one.mixture.means.copy()
    means[0, 0] = np.nan
    with pytest.raises(PosteriorFileError, match="mixture_means"):
        save(replace(one, mixture=one.mixture._replace(means=means)), tmp_path / "fit")
    with pytest.raises(PosteriorFileError, match="other names"):
        save(replace(one, names=("c", "d")), tmp_path / "fit")
    with pytest.raises(PosteriorFileError, match="another space"):
        save(replace(one, space=replace(one.space, scale=2 * one.space.scale), evaluations=None), tmp_path / "fit")
    assert not list(tmp_path.iterdir())


# Damage


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    kind = rng.integers(4)
    at = int(rng.integers(len(data)))
    if kind == 0:  # some bytes flipped
        changed = bytearray(data)
        for place in rng.integers(len(data), size=rng.integers(1, 5)):
            changed[place] ^= int(rng.integers(1, 256))
        return bytes(changed)
    if kind == 1:  # one bit flipped in the directory at the end, where zip keeps sizes, names and flags
        changed = bytearray(data)
        changed[-int(rng.integers(1, min(2000, len(data))))] ^= 1 << int(rng.integers(8))
        return bytes(changed)
    if kind == 2:  # cut short
        return data[:at]
    return data[:at] + rng.bytes(int(rng.integers(1, 50))) + data[at:]


@pytest.mark.parametrize("compact", [False, True])
def test_damage_is_refused_or_harmless(one, tmp_path, compact):
    data = save(one, tmp_path / "fit", compact=compact).read_bytes()
    path = tmp_path / "damaged.npz"
    rng = np.random.default_rng(20)
    refused = 0
    for _ in range(300):
        path.write_bytes(damaged(data, rng))
        try:
            again = load(path)
        except PosteriorFileError:
            refused += 1
        else:
            assert same_answers(replace(one, refined=None) if compact else one, again)
    assert refused > 200


@pytest.mark.parametrize("content", [b"", b"PK", b"theta,logp\n1,2\n", bytes(1000)])
def test_foreign_bytes(content, tmp_path):
    path = tmp_path / "foreign.npz"
    path.write_bytes(content)
    with pytest.raises(PosteriorFileError, match="can't be loaded"):
        load(path)


def test_foreign_npz(tmp_path):
    np.savez(tmp_path / "foreign.npz", points=np.zeros((3, 2)))
    with pytest.raises(PosteriorFileError, match="header"):
        load(tmp_path / "foreign.npz")
    np.savez(tmp_path / "foreign.npz", header=np.frombuffer(b'{"format": "something else"}', np.uint8))
    with pytest.raises(PosteriorFileError, match="not a vsbq posterior"):
        load(tmp_path / "foreign.npz")


class Bomb:
    def __reduce__(self):
        return Path.touch, (Path("executed"),)


@pytest.mark.parametrize("where", ["header", "mixture_means"])
def test_pickle_is_refused_and_not_executed(one, tmp_path, monkeypatch, where):
    monkeypatch.chdir(tmp_path)
    path = save(one, tmp_path / "fit")
    members = dict(np.load(path))
    members[where] = np.array([Bomb()], dtype=object)
    np.savez(path, **members)
    with pytest.raises(PosteriorFileError):
        load(path)
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(PosteriorFileError):
        load(path)
    assert not Path("executed").exists()


# Files that were made on purpose, with a checksum that fits


def rewritten(path: Path, *, header: dict | None = None, **arrays) -> Path:
    """The file with some entries of its header and some arrays changed, and signed again."""
    return resigned(path, json.loads(np.load(path)["header"].tobytes()) | (header or {}), **arrays)


def resigned(path: Path, entries: dict, **arrays) -> Path:
    """The file with another header and some arrays changed, and signed again."""
    members = dict(np.load(path)) | arrays
    members.pop("header")
    entries = {name: entry for name, entry in entries.items() if name != "checksum"}
    entries["checksum"] = container._checksum(entries, members)
    text = np.frombuffer(json.dumps(entries).encode(), np.uint8)
    np.savez_compressed(path, header=text, **members)
    return path


def test_rewriting_alone_changes_nothing(one, tmp_path):
    assert same_answers(one, load(rewritten(save(one, tmp_path / "fit"))))


@pytest.mark.parametrize("compact", [False, True])
def test_the_tag_is_in_the_file(one, tmp_path, compact):
    tagged = replace(one, evaluations=one.evaluations.with_tag("modèle 1\n✓"))
    path = save(tagged, tmp_path / "fit", compact=compact)
    again = load(path)
    assert again.tag == tagged.tag == "modèle 1\n✓"
    assert compact or again.evaluations.tag == tagged.tag
    assert load(save(again, tmp_path / "again", compact=True)).tag == tagged.tag
    with pytest.raises(PosteriorFileError, match="where str is due"):
        load(rewritten(path, header={"tag": 3}))


def test_files_from_before_tags_are_read(one, tmp_path):
    path = save(one, tmp_path / "fit")
    entries = json.loads(np.load(path)["header"].tobytes())
    del entries["tag"]
    resigned(path, entries)
    assert load(path).tag is None
    assert same_answers(one, load(path))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("mixture_means", lambda a: a * np.nan, "mixture_means"),
        ("mixture_means", lambda a: a[:, :1], "shape"),
        ("mixture_means", lambda a: a.astype(np.float32), "float32"),
        ("mixture_means", lambda a: np.asfortranarray(a), "shape"),
        ("mixture_trils", lambda a: -a, "positive scale"),
        ("mixture_log_weights", lambda a: a + 0.1, "sum to one"),
        ("mixture_log_weights", lambda a: a + 800.0, "sum to one"),
        ("space_scale", lambda a: 0 * a, "space_scale"),
        ("space_edge", lambda a: a - 1, "space_edge"),
        ("space_lower", lambda a: a + np.nan, "space_lower"),
        ("space_lower", lambda a: np.full_like(a, np.inf), "lower bound"),
        ("space_upper", lambda a: a - 5.0, "outside the bounds"),
        ("surrogate_chol_v", lambda a: -a, "Cholesky"),
        ("surrogate_weights", lambda a: a + np.inf, "surrogate_weights"),
        ("surrogate_sides_axes", lambda a: a[:, :1], "shape"),
        ("surrogate_sides_ends", lambda a: a + np.nan, "surrogate_sides_ends"),
        ("surrogate_sides_errors", lambda a: a[:-1], "shape"),
        ("surrogate_sides_errors", lambda a: a - 1e6, "sides"),
        ("surrogate_sides_distances", lambda a: 0 * a, "sides"),
        ("surrogate_sister_0_turn", lambda a: a + np.inf, "surrogate_sister_0_turn"),
        ("surrogate_sister_0_turn", lambda a: a[0], "shape"),
        ("surrogate_sister_0_hyperparameters", lambda a: a[:-1], "shape"),
        ("surrogate_sister_0_inducing", lambda a: a[:-1], "shape"),
        ("surrogate_sister_0_weights", lambda a: a * np.nan, "surrogate_sister_0_weights"),
        ("region_lower", lambda a: a + 1e6, "trusted makes no sense"),
        ("evaluations_log_density", lambda a: a + np.inf, "log density"),
        ("evaluations_sd", lambda a: -a, "noise sd"),
    ],
)
def test_numbers_that_make_no_posterior(one, tmp_path, name, change, message):
    path = save(one, tmp_path / "fit")
    rewritten(path, **{name: change(np.load(path)[name])})
    with pytest.raises(PosteriorFileError, match=message):
        load(path)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"format_version": 3, "vsbq_version": "9.0"}, "Upgrade vsbq"),
        ({"format_version": "1"}, "where int is due"),
        ({"names": ["a", "a"]}, "name"),
        ({"names": ["a", ""]}, "name"),
        ({"names": ["a", "b", "c"]}, "shape|claims"),
        ({"names": []}, "less than one"),
        ({"names": None}, "damaged"),
        ({"components": 0}, "less than one"),
        ({"components": -4}, "less than one"),
        ({"components": 3}, "shape"),
        ({"components": True}, "where int is due"),
        ({"components": 10**15}, "far larger"),
        ({"offset": float("nan")}, "finite"),
        ({"offset": "0"}, "where float is due"),
        ({"elbo": {"value": 0.0, "sd": -1.0, "monte_carlo_error": 0.0}}, "negative"),
        ({"elbo": {"value": 0.0}}, "damaged"),
        ({"surrogate": {"inducing": 10**6, "rotated": False, "offset": 0.0, "jitter": 0.0}}, "far larger"),
        ({"history": {"trimmed": 3}}, "damaged"),
        ({"history": []}, "damaged"),
        ({"unknown": 1}, "damaged"),
    ],
)
def test_headers_that_make_no_posterior(one, tmp_path, header, message):
    with pytest.raises(PosteriorFileError, match=message):
        load(rewritten(save(one, tmp_path / "fit"), header=header))


@pytest.mark.parametrize(
    ("part", "entries", "message"),
    [
        ("surrogate", {"sides": 0}, "less than one"),
        ("surrogate", {"sides": 10**12}, "far larger"),
        ("surrogate", {"sisters": [{"inducing": 0, "shift": 0.0}]}, "less than one"),
        ("surrogate", {"sisters": [{"inducing": 3, "shift": 0.0}]}, "shape|claims"),
        ("surrogate", {"sisters": [{"inducing": 3}]}, "damaged"),
        ("surrogate", {"sisters": 3}, "damaged"),
        ("refined", {"guessed_variance": -1.0}, "makes no sense"),
        ("refined", {"guessed_variance": float("nan")}, "finite"),
        ("support", {"surfaces": 9}, "shape|claims"),
        ("support", {"surfaces": -1}, "less than one"),
        ("support", {"surfaces": 10**12}, "far larger"),
        ("support", {"stand_ins": 1}, "stand_in_centre"),
        ("support", {"surfaces": None}, "where int is due"),
    ],
)
def test_parts_of_headers_that_make_no_posterior(corner, tmp_path, part, entries, message):
    path = save(corner, tmp_path / "fit")
    changed = json.loads(np.load(path)["header"].tobytes())[part] | entries
    with pytest.raises(PosteriorFileError, match=message):
        load(rewritten(path, header={part: changed}))


def test_a_shift_of_a_sister_that_is_no_number_is_refused(one, tmp_path):
    path = save(one, tmp_path / "fit")
    changed = json.loads(np.load(path)["header"].tobytes())["surrogate"]
    changed["sisters"][0]["shift"] = float("inf")
    with pytest.raises(PosteriorFileError, match="shift is not finite"):
        load(rewritten(path, header={"surrogate": changed}))


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("support_centre", lambda a: a + np.nan, "support_centre"),
        ("support_centre", lambda a: a[:1], "shape"),
        ("support_root", lambda a: np.ones_like(a), "singular"),
        ("support_root", lambda a: a[0], "shape"),
        ("support_surfaces", lambda a: a + np.inf, "support_surfaces"),
        ("support_surfaces", lambda a: a[:, :-1], "shape"),
        ("support_surfaces", lambda a: a[:, :, :-1], "shape"),
    ],
)
def test_surfaces_that_make_no_support(corner, tmp_path, name, change, message, compact):
    path = save(corner, tmp_path / "fit", compact=compact)
    rewritten(path, **{name: np.ascontiguousarray(change(np.load(path)[name]))})
    with pytest.raises(PosteriorFileError, match=message):
        load(path)


def test_changed_header_does_not_fit_the_checksum(one, tmp_path):
    members = dict(np.load(save(one, tmp_path / "fit")))
    entries = json.loads(members.pop("header").tobytes()) | {"offset": 1.0}
    np.savez_compressed(tmp_path / "fit.npz", header=np.frombuffer(json.dumps(entries).encode(), np.uint8), **members)
    with pytest.raises(PosteriorFileError, match="checksum"):
        load(tmp_path / "fit")


def test_a_fit_to_few_points_comes_back(tmp_path, rng):
    """So few that no block of evaluations could be held out."""
    x = rng.normal(size=(40, 2))
    x[12:] *= 8 / np.linalg.norm(x[12:], axis=1, keepdims=True)
    with pytest.warns(vsbq.VsbqWarning, match="the surrogate is untested"):
        post = vsbq.fit(x, -0.5 * (x**2).sum(axis=1), settings=SETTINGS, rng=1, progress=False)
    assert post.surrogate.without is None
    assert post.surrogate.tested == 0
    again = load(post.save(tmp_path / "few.npz"))
    np.testing.assert_array_equal(again.sample(10, 3), post.sample(10, 3))
