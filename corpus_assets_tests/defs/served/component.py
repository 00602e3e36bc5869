"""A user's own project beside the served one: a corpus as a component, and an asset that reads it."""

from pathlib import Path

import yaml

from corpus_assets_tests.defs.conftest import write_input

MINE = "mine"  # the code location
DEFINITIONS = """
from pathlib import Path
import dagster as dg

@dg.definitions
def defs():
    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
"""
REPORT = """
import dagster as dg
from corpus_assets import MmapTokenStore

@dg.asset(ins={"corpus": dg.AssetIn(key=["web", "training_release"])})
def report(corpus: MmapTokenStore) -> dg.MaterializeResult:
    with corpus:
        return dg.MaterializeResult(metadata={"tokens": len(corpus), "documents": corpus.index.document_count})
"""


def add_component_project(folder: Path) -> None:
    """Write the project to `folder` and add it to the workspace there."""
    project = folder / "mine_project"
    defs = project / MINE / "defs"
    (defs / "web").mkdir(parents=True)
    (project / "pyproject.toml").write_text(
        f'[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "{MINE}"\n'
    )
    (project / MINE / "__init__.py").touch()
    (project / MINE / "definitions.py").write_text(DEFINITIONS)
    (defs / "__init__.py").touch()
    (defs / "report.py").write_text(REPORT)
    attributes = {"name": "web", "input": "texts", "root": "out", "window_size": 256, "workers": 1}
    (defs / "web" / "defs.yaml").write_text(
        yaml.safe_dump({"type": "corpus_assets.CorpusComponent", "attributes": attributes})
    )
    for name in ("a.jsonl", "b.jsonl"):
        write_input(project / "texts" / name)
    workspace = yaml.safe_load((folder / "workspace.yaml").read_text())
    location = {
        "module_name": f"{MINE}.definitions",
        "working_directory": str(project),
        "location_name": MINE,
    }
    workspace["load_from"].append({"python_module": location})
    (folder / "workspace.yaml").write_text(yaml.safe_dump(workspace))
