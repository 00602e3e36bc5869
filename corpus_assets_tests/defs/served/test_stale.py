"""What the UI marks as stale once the discovery sensor has run in the daemon."""

import pytest

from corpus_assets_tests.defs.served.staleness import CHANGED, KEPT, TOUCHED

pytestmark = pytest.mark.browser


def test_exactly_the_changed_input_marks_its_partition(staleness):
    assert staleness.result(timeout=600) == {
        CHANGED: ("STALE", ["has a new data version"]),
        TOUCHED: ("FRESH", []),
        KEPT: ("FRESH", []),
    }
