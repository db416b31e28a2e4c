"""Choose the thresholds of `Posterior.diagnose` from the development half of the study of verdicts.

Prints the fields of `vsbq.posterior.diagnosis.thresholds.Thresholds` and how well they tell fits apart; `--write` puts
them there. Lines of the validation half are not read.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser
from pathlib import Path

from vsbq.posterior.diagnosis import thresholds
from vsbq_bench.trust.choose import Choice, choose, in_words
from vsbq_bench.trust.study import read_study


def written(text: str, choice: Choice) -> str:
    """The source of the thresholds with other numbers."""
    values = {f"{name}: Span": str(span) for name, span in choice.thresholds.items()}
    values["rejected: float"] = str(choice.rejected)
    for name, value in values.items():
        text, count = re.subn(
            rf"^(    {name} = )(\([^)]*\)|[\d.]+)",
            lambda found, value=value: found[1] + value,
            text,
            flags=re.MULTILINE,
        )
        if count != 1:
            raise ValueError(f"There are {count} lines of {name!r} in the thresholds, not one.")
    return text


def main() -> None:
    """Choose and print; write if asked to."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("lines", type=Path, nargs="?", default=Path("benchmarks/results/trust.jsonl"))
    parser.add_argument("--write", action="store_true", help=f"change the numbers in {Path(thresholds.__file__).name}")
    options = parser.parse_args()
    lines = [line for line in read_study(options.lines) if line["half"] == "development"]
    choice = choose(lines)
    print(f"{len(lines)} lines of the development half")
    print(in_words(choice))
    if options.write:
        source = Path(thresholds.__file__)
        source.write_text(written(source.read_text(encoding="utf-8"), choice), encoding="utf-8")


if __name__ == "__main__":
    main()
