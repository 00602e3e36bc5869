import numpy as np
import pytest

from corpus_assets.benchmarks.checked import WrongResultError, check_windows

TOKENS = np.arange(10, dtype=np.uint16)


def test_right_windows_pass():
    check_windows("reader", np.array([[2, 3, 4], [7, 8, 9]]), TOKENS, np.array([2, 7]))


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([[2, 3, 4], [7, 8, 0]], "reader: the window at 7 is not the corpus's"),
        ([[3, 4, 5], [7, 8, 9]], "the window at 2"),
        ([[2, 3, 4]], "found 1 windows, expected 2"),
    ],
)
def test_a_wrong_token_is_seen(found, message):
    with pytest.raises(WrongResultError, match=message):
        check_windows("reader", np.array(found), TOKENS, np.array([2, 7]))
