"""Choose the thresholds of `Posterior.diagnose` from the development half of the study of verdicts.

Prints the fields of `vsbq.posterior.diagnosis.thresholds.Thresholds`. Lines of the validation half are not read.
"""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from vsbq_bench.trust.choose import choose, in_words
from vsbq_bench.trust.study import read_study


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("lines", type=Path, nargs="?", default=Path("benchmarks/results/trust.jsonl"))
    lines = [line for line in read_study(parser.parse_args().lines) if line["half"] == "development"]
    print(f"{len(lines)} lines of the development half")
    print(in_words(choose(lines)))


if __name__ == "__main__":
    main()
