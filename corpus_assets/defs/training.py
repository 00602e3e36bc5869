"""training: the configured command, or the reference trainer, on the released corpus."""

import sys

import dagster as dg

from corpus_assets.defs.corpus import Corpus
from corpus_assets.defs.gate import gate, refuse_unless_passed
from corpus_assets.defs.plots import loss_plot
from corpus_assets.defs.refusal import refusals
from corpus_assets.shards.index import load_index
from corpus_assets.shards.release import generation_path, load_release

REFERENCE_TRAINER = (sys.executable, "-m", "corpus_assets.training.reference")


def training_asset(corpus: Corpus) -> dg.AssetsDefinition:
    """The asset; it asks the gate again, whatever route it is launched by.

    The command finds the corpus in its Pipes extras and in CORPUS_INDEX: the index of the released
    generation, which a rebuild that runs beside it does not touch.
    """
    config = corpus.config

    @dg.asset(
        key=corpus.key("training"),
        deps=[corpus.key("training_release")],
        pool=corpus.named("training"),
        group_name=corpus.name,
        kinds={"python"},
        description="Training on the released corpus, as a subprocess that reports through Dagster Pipes.",
    )
    def training(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
        with refusals(config.root):
            index = load_index(config.index_path)
            refuse_unless_passed(corpus, index, gate(context.instance, corpus, index))
            release = load_release(config.root, index.fingerprint)
        index_path = str(generation_path(config.root, release.fingerprint))
        invocation = dg.PipesSubprocessClient().run(
            context=context,
            command=config.training.command or list(REFERENCE_TRAINER),
            env={"CORPUS_INDEX": index_path},
            extras={
                "index_path": index_path,
                "index_fingerprint": release.fingerprint,
                "window_size": config.window_size,
                **config.training.model_dump(exclude={"command"}),
            },
        )
        result = invocation.get_materialize_result()
        return result._replace(metadata={**(result.metadata or {}), **loss_plot(result.metadata)})

    return training
