"""Messages: the arguments that they advise stay apart from the words, wherever the error goes."""

import copy
import pickle

import numpy as np
import pytest

from vsbq.errors import Argument, ArgumentError, EvaluationsError, FitError, Message, as_count

DROP = Argument("nonfinite", "drop")


def parts_of(error: Exception) -> list[Argument]:
    return [part for part in error.message.parts if isinstance(part, Argument)]


def test_a_message_in_parts_reads_as_one():
    error = EvaluationsError("Row 3 is NaN. Pass ", DROP, ", or ", Argument("bounds"), ".")
    assert str(error) == "Row 3 is NaN. Pass nonfinite='drop', or bounds=."
    assert error.args == (str(error),)


def test_an_argument_may_be_said_otherwise():
    assert str(Argument("tag", said="with_tag")) == "with_tag"
    assert str(Argument("check_sign", False)) == "check_sign=False"


def test_words_before_and_after_an_error_keep_its_arguments():
    inner = EvaluationsError("Pass ", DROP, ".")
    outer = FitError("'a.csv': ", inner, " Rows count from 0.")
    assert str(outer) == "'a.csv': Pass nonfinite='drop'. Rows count from 0."
    assert parts_of(outer) == [DROP]
    assert outer.message.worded(lambda each: each.name) == "'a.csv': Pass nonfinite. Rows count from 0."


@pytest.mark.parametrize(("given", "count"), [(3, 3), (1e4, 10_000), (np.int64(2), 2), (0, 0)])
def test_a_count_may_be_a_float_without_a_fraction(given, count):
    found = as_count(given, "The number of draws", 0)
    assert (found, type(found)) == (count, int)


@pytest.mark.parametrize("given", [-1, 10.5, "a", "3", None, np.nan, np.inf, True, [1, 2], np.ones(3)])
def test_what_is_no_count_is_refused_in_words(given):
    with pytest.raises(ArgumentError, match="The number of draws is a whole number of at least 0, not "):
        as_count(given, "The number of draws", 0)


def test_other_errors_and_messages_can_be_parts():
    assert str(EvaluationsError("it can't be read: ", OSError("gone"))) == "it can't be read: gone"
    assert parts_of(EvaluationsError(Message("Pass ", DROP), " now")) == [DROP]


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_copies_keep_the_arguments(again):
    error = EvaluationsError("Pass ", DROP, ".")
    assert (str(again(error)), parts_of(again(error))) == (str(error), [DROP])
