"""Many fits: participants and models, in processes of this machine or on a Dask cluster, resumable."""

from vsbq.many.job import stream
from vsbq.many.result import Failure, ManyFits, MissingFitError, Row
from vsbq.many.run import fit_many

__all__ = ["Failure", "ManyFits", "MissingFitError", "Row", "fit_many", "stream"]
