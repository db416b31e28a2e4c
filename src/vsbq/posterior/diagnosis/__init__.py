"""Whether a posterior can be used: measures, thresholds, findings and the verdict."""

from vsbq.posterior.diagnosis.checks import diagnose, judged
from vsbq.posterior.diagnosis.finding import LEVELS, Diagnosis, Finding
from vsbq.posterior.diagnosis.thresholds import THRESHOLDS, Thresholds

__all__ = ["LEVELS", "THRESHOLDS", "Diagnosis", "Finding", "Thresholds", "diagnose", "judged"]
