from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus_assets.loading.packing import pack_documents


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ([[1, 2, 3], [4, 5]], [[1, 2], [3, 4], [5]]),  # the last group is shorter, not lost
        ([[1, 2], [], [3, 4]], [[1, 2], [3, 4]]),
        ([[1, 2, 3, 4, 5]], [[1, 2], [3, 4], [5]]),
        ([[1]], [[1]]),
        ([[], []], []),
        ([], []),
        ([np.array([1, 2], np.uint16), (3,)], [[1, 2], [3]]),
    ],
)
def test_documents_are_cut_into_pairs(documents, expected):
    assert pack_documents(documents, 2) == expected
    assert pack_documents(iter(documents), 2) == expected


@given(st.lists(st.lists(st.integers(0, 2**32 - 1))), st.integers(1, 20))
def test_no_token_is_lost_or_moved(documents, length):
    groups = pack_documents(documents, length)
    assert list(chain.from_iterable(groups)) == list(chain.from_iterable(documents))
    assert all(len(group) == length for group in groups[:-1])
    assert all(0 < len(group) <= length for group in groups)


def test_a_length_below_one_is_refused():
    with pytest.raises(ValueError, match="length is 0"):
        pack_documents([[1]], 0)
