"""Confidence intervals from a study of Optuna that was already run: the storage is all that is needed.

python examples/optuna_study.py --out demo
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import optuna

import vsbq

TIME = np.linspace(0, 8, 25)
NOISE = 0.15
DATA = 2.0 * np.exp(-0.5 * TIME) + 0.4 + NOISE * np.random.default_rng(3).standard_normal(25)


def objective(trial: optuna.Trial) -> float:
    """Negative log posterior of an exponential decay to a baseline, with a flat prior in the search space."""
    amplitude = trial.suggest_float("amplitude", 0.1, 5.0)
    rate = trial.suggest_float("rate", 0.05, 3.0)
    baseline = trial.suggest_float("baseline", -1.0, 2.0)
    z = (DATA - amplitude * np.exp(-rate * TIME) - baseline) / NOISE
    log_likelihood = -0.5 * z @ z - len(z) * np.log(NOISE * np.sqrt(2 * np.pi))
    return -(log_likelihood - np.log(4.9 * 2.95 * 3.0))


def search(storage: str, trials: int) -> None:
    """What was done some weeks ago."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        storage=storage, study_name="decay", load_if_exists=True, sampler=optuna.samplers.TPESampler(seed=1)
    )
    study.optimize(objective, n_trials=max(0, trials - len(study.trials)))
    print("best value of the search:", {name: round(value, 3) for name, value in study.best_params.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description="A posterior from a storage of Optuna.")
    parser.add_argument("--out", type=Path, default=Path("demo"), metavar="DIR", help="folder for the results")
    parser.add_argument("--trials", type=int, default=300, metavar="N", help="of the search")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    storage = f"sqlite:///{options.out / 'optuna_study.db'}"
    search(storage, options.trials)

    evaluations = vsbq.Evaluations.from_optuna(storage, study_name="decay")
    post = vsbq.fit(evaluations, rng=1)
    print(vsbq.audit(evaluations), post.summary(), sep="\n\n")

    half_life = np.log(2) / post.sample(4000, rng=2)[:, post.names.index("rate")]
    low, high = np.quantile(half_life, [0.05, 0.95])
    print(f"\nhalf-life, 90 % interval: {low:.2f} to {high:.2f}")
    print("report in", post.report(options.out / "optuna_study.html", title="Decay", overwrite=True))


if __name__ == "__main__":
    main()
