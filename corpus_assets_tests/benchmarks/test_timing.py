import pytest

from corpus_assets.benchmarks.timing import Rates, measure_in_turns


def test_ways_are_measured_in_turns_after_a_round_that_does_not_count():
    order = []
    rates = measure_in_turns(
        {"a": lambda call: order.append(("a", call)), "b": lambda call: order.append(("b", call))},
        repeats=3,
        round_seconds=0,
    )
    assert order == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3), ("b", 3)]
    assert [len(rates[name].rounds) for name in "ab"] == [3, 3]


def test_what_comes_before_a_round_is_done_for_its_way_alone():
    order = []
    ways = {"a": lambda _: order.append("a"), "b": lambda _: order.append("b")}
    measure_in_turns(ways, repeats=1, round_seconds=0, before={"b": lambda: order.append("before b")})
    assert order == ["a", "before b", "b"] * 2


def test_a_round_lasts_as_long_as_asked():
    calls = []
    rates = measure_in_turns({"a": calls.append}, repeats=1, round_seconds=0.01)["a"]
    assert calls == list(range(len(calls)))
    assert rates.rounds[0] * 0.01 <= len(calls)


@pytest.mark.parametrize(("rounds", "median"), [((1.0, 9.0, 2.0), 2.0), ((4.0,), 4.0)])
def test_the_median_is_reported(rounds, median):
    assert Rates(rounds).median == median
