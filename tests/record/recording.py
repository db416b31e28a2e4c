"""A cost, a box and a look at what was recorded last, for all tests of recorders."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import vsbq
from vsbq.io.record import read_store

NAMES = ["a", "b"]
BOX = [(-5.0, 5.0), (-4.0, 6.0)]


def cost(x, shift=0.0):
    return 0.5 * float(np.sum((np.asarray(x) - shift) ** 2))


def cost_of_rows(x):
    return 0.5 * np.sum(x**2, axis=1)


def last(rec):
    """The evaluation that was recorded last."""
    stored = read_store(rec)
    sd = None if stored.log_density_sd is None else stored.log_density_sd[-1]
    prior = None if stored.log_prior is None else stored.log_prior[-1]
    return stored.points[-1].tolist(), stored.log_density[-1], sd, prior


def raising(error):
    def fail(x):
        raise error

    return fail


def fill(rec, n=60, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, 2))
    rec.minimise(cost_of_rows)(x)
    return x


def other_python(code, *arguments):
    """Run some lines in another process."""
    source = str(Path(vsbq.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": source, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, *(str(argument) for argument in arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


# Records 50 evaluations and is killed, with an ordinary journal in the middle of writing.
KILLED = """
import os, signal, sys, warnings
from vsbq.io.record import Recorder, file
if sys.argv[2] == "delete":
    warnings.simplefilter("ignore")
    file.network_drive = lambda path: "a network drive (test)"
rec = Recorder(sys.argv[1], names=["a", "b"], tag="old")
for i in range(50):
    rec.record([float(i), 0.0], -1.0)
if sys.argv[2] == "delete":
    connection = rec._store.connect()
    connection.execute("PRAGMA cache_spill = 1")
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE evaluation SET log_density = -2")
    connection.execute("UPDATE writer SET run = 'half'")
os.kill(os.getpid(), signal.SIGKILL)
"""
