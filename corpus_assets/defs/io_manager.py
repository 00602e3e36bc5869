"""A user's asset takes the released corpus as an argument: `def probe(stdlib: MmapTokenStore)`.

@dg.asset(ins={"corpus": dg.AssetIn(key=["stdlib", "training_release"])})
def probe(corpus: MmapTokenStore) -> None: ...
"""

from pathlib import Path

import dagster as dg

from corpus_assets.defs.refusal import refusals
from corpus_assets.loading.store import MmapTokenStore


class ReleasedCorpusIOManager(dg.ConfigurableIOManager):
    """Opens the corpus behind training_release; refuses one whose present index has no release."""

    index_path: str

    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        """The release is a file already; there is nothing to store."""

    def load_input(self, context: dg.InputContext) -> MmapTokenStore:  # noqa: ARG002
        """The open store; its mappings go when it is closed or collected."""
        with refusals(Path(self.index_path).parent):
            return MmapTokenStore(Path(self.index_path), require_release=True)
