"""Opening and reading an uncompressed corpus asks HDF5 nothing and imports nothing heavy."""

import subprocess
import sys

from corpus_assets_tests.loading.corpora import random_shards, write_corpus_of

CODE = """
import sys
from corpus_assets import MmapTokenStore, SlidingWindowDataloader
with MmapTokenStore(sys.argv[1]) as store:
    inputs, targets = next(SlidingWindowDataloader(store, 8, 2, seed=0))
    assert inputs.shape == (2, 8)
print(*sorted({name.split(".")[0] for name in sys.modules} & {"h5py", "pandas", "pyarrow", "dagster", "torch"}))
"""


def test_a_mapped_corpus_is_read_without_h5py(tmp_path):
    write_corpus_of(tmp_path, random_shards([100, 100]))
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr
