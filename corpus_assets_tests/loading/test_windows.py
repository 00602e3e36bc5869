import numpy as np
import pytest

from corpus_assets.loading.windows import cell_widths, first_sample, num_starts, num_windows, tail_tokens


@pytest.mark.parametrize(
    ("token_count", "stride", "windows", "tail"),
    [
        (0, 4, 0, 0),
        (4, 4, 0, 4),  # four inputs need a fifth token as the last target
        (5, 4, 1, 1),  # the tail is that target
        (8, 4, 1, 4),
        (9, 4, 2, 1),
        (7, 2, 2, 3),  # the second window starts at token 2 and ends with token 6
        (5, 1, 1, 4),
        (6, 1, 2, 4),
        (2**31 + 4, 1, 2**31, 4),
        (2**40, 4, 2**38 - 1, 4),
        (2**62 + 1, 4, 2**60, 1),
    ],
)
def test_windows_and_tail_account_for_every_token(token_count, stride, windows, tail):
    assert num_windows(token_count, window_size=4, stride=stride) == windows
    assert tail_tokens(token_count, window_size=4, stride=stride) == tail
    assert windows * stride + tail == token_count


def test_a_stride_past_the_end_leaves_no_tail():
    assert num_windows(5, window_size=4, stride=10) == 1
    assert tail_tokens(5, window_size=4, stride=10) == 0


@pytest.mark.parametrize(("token_count", "starts"), [(0, 0), (4, 0), (5, 1), (10, 6), (2**33, 2**33 - 4)])
def test_num_starts_leaves_room_for_a_window_and_its_target(token_count, starts):
    assert num_starts(token_count, window_size=4) == starts


@pytest.mark.parametrize(
    ("token_count", "widths"),
    [
        (5, [1]),  # only token 0 can start a window
        (7, [3]),
        (8, [3, 1]),
        (10, [3, 3]),
        (12, [3, 3, 2]),
    ],
)
def test_cells_part_the_starts(token_count, widths):
    cells = np.arange(num_windows(token_count, window_size=4, stride=3))
    assert cell_widths(cells, token_count, window_size=4, stride=3).tolist() == widths
    assert sum(widths) == num_starts(token_count, window_size=4)


@pytest.mark.parametrize(
    ("step", "rank", "expected"),
    [(0, 0, 0), (0, 1, 3), (1, 0, 6), (1, 1, 9), (2**40, 1, 6 * 2**40 + 3)],
)
def test_first_sample_lays_the_ranks_side_by_side(step, rank, expected):
    assert first_sample(step, batch_size=3, rank=rank, world_size=2) == expected


@pytest.mark.parametrize(
    ("token_count", "window_size", "stride", "message"),
    [
        (-1, 4, 4, "token_count is -1"),
        (9, 0, 4, "window_size is 0"),
        (9, 4, 0, "stride is 0"),
    ],
)
def test_nonsense_is_refused(token_count, window_size, stride, message):
    with pytest.raises(ValueError, match=message):
        num_windows(token_count, window_size=window_size, stride=stride)
