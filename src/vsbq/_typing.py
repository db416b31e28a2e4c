"""Shapes in signatures: `Float[ndarray, "n d"]` is a float64 array with n rows and d columns.

jaxtyping checks the shapes while the tests run; without it the annotations are plain text about arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy import ndarray
from numpy.typing import ArrayLike

try:
    from jaxtyping import Bool, Float, Int
except ImportError:

    class _Array:
        """Stand-in where jaxtyping is not installed: any shape is an array."""

        def __class_getitem__(cls, shape: object) -> Any:
            return ndarray

    if not TYPE_CHECKING:
        Bool = Float = Int = _Array

__all__ = ["ArrayLike", "Bool", "Float", "Int", "ndarray"]
