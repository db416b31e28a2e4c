"""A small table of a posterior's parameters."""

from __future__ import annotations

from dataclasses import dataclass

from vsbq._typing import Float, ndarray


@dataclass(frozen=True, eq=False)
class Summary:
    """Mean, standard deviation and central 90 % interval of each parameter; prints as a table."""

    names: tuple[str, ...]
    mean: Float[ndarray, " d"]
    sd: Float[ndarray, " d"]
    q05: Float[ndarray, " d"]
    median: Float[ndarray, " d"]
    q95: Float[ndarray, " d"]
    verdict: str | None = None  # of `Posterior.diagnose`; None where it is not known

    def __str__(self) -> str:
        width = max(9, *(len(name) for name in self.names))
        head = f"{'':<{width}}" + "".join(f"{title:>12}" for title in ("mean", "sd", "5 %", "median", "95 %"))
        rows = [
            f"{name:<{width}}" + "".join(f"{value:>12.5g}" for value in values)
            for name, *values in zip(self.names, self.mean, self.sd, self.q05, self.median, self.q95, strict=True)
        ]
        last = [] if self.verdict is None else [f"verdict: {self.verdict}"]
        return "\n".join([head, *rows, *last])

    def to_dict(self) -> dict[str, dict[str, float]]:
        """One entry per parameter."""
        columns = {"mean": self.mean, "sd": self.sd, "q05": self.q05, "median": self.median, "q95": self.q95}
        return {name: {key: float(v[i]) for key, v in columns.items()} for i, name in enumerate(self.names)}
