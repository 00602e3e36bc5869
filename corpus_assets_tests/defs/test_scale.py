"""Ten thousand inputs stay usable; `python -m corpus_assets_tests.defs.scale` prints the figures."""

import pytest

from corpus_assets_tests.defs.scale import measure


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.filterwarnings("ignore")
def test_ten_thousand_inputs(tmp_path):
    figures = measure(tmp_path, inputs=10_000, browser=True)
    assert figures.overhead < 1.5  # cost per partition beside Dagster's own cost per event
    assert figures.tick < 60  # Dagster ends a tick that takes longer
    assert figures.page < 60
    assert figures.peak_megabytes < 2048
