import numpy as np

from corpus_assets.loading.recycling import RecycledMemory


def _address(array):
    return array.__array_interface__["data"][0]


def test_memory_serves_again_when_its_array_is_gone():
    recycled = RecycledMemory((2, 3), np.dtype(np.int64), spare=1)
    first = recycled.new()
    assert (first.shape, first.dtype, first.flags.writeable) == ((2, 3), np.int64, True)
    address = _address(first)
    del first
    assert _address(recycled.new()) == address


def test_memory_that_somebody_holds_is_left_alone():
    recycled = RecycledMemory((2, 3), np.dtype(np.int64), spare=4)
    for hold in (
        lambda array: array,
        lambda array: array[1],
        lambda array: array[1][::2].T,
        memoryview,
        lambda array: array.view(np.uint8).reshape(-1)[8:].reshape(-1, 4)[1:],
        lambda array: np.frombuffer(array, np.uint8),
    ):
        held = hold(recycled.new())
        before = np.array(held)
        for _ in range(6):
            recycled.new()[...] = -1
        assert np.array_equal(held, before)


def test_few_pieces_are_kept():
    recycled = RecycledMemory((2, 3), np.dtype(np.int64), spare=2)
    arrays = [recycled.new() for _ in range(5)]
    arrays.clear()
    assert len(recycled._spare) == 2


def test_two_holders_never_share():
    recycled = RecycledMemory((4,), np.dtype(np.int32), spare=2)
    held = []
    for number in range(50):
        array = recycled.new()
        array[...] = number
        if number % 3 == 0:
            held.append((number, array[1:3]))
    assert all((view == number).all() for number, view in held)
