"""The input shards of a corpus as they were last observed: the set that an index must cover."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from corpus_assets.errors import ConfigError, IndexMismatchError
from corpus_assets.shards.checksum import refuse_changed, with_checksum
from corpus_assets.shards.publish import publish_bytes, scratch_folder
from corpus_assets.shards.regular import read_regular
from corpus_assets.sources.discover import ListedInput, content_sha256, list_inputs

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from corpus_assets.config import CorpusConfig

MANIFEST = "inputs.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """One input shard as observed.

    Attributes:
        signature: cheap token that changes when the file may have changed.
        fingerprint: sha256 of the raw bytes; decides staleness. Empty if the file could not be read.
    """

    key: str
    name: str
    url: str
    size: int
    signature: str
    fingerprint: str


@dataclass(frozen=True, kw_only=True)
class InputManifest:
    """All input shards of a corpus, in key order."""

    files: tuple[InputFile, ...]

    @cached_property
    def _by_key(self) -> dict[str, InputFile]:
        return {file.key: file for file in self.files}

    @property
    def keys(self) -> list[str]:
        return [file.key for file in self.files]

    def __getitem__(self, key: str) -> InputFile:
        return self._by_key[key]

    def __contains__(self, key: str) -> bool:
        return key in self._by_key

    def find(self, text: str) -> InputFile:
        """The input with key or name `text`.

        Raises:
            ConfigError: there is none; the message names the nearest.
        """
        for file in self.files:
            if text in (file.key, file.name):
                return file
        import difflib

        near = difflib.get_close_matches(text, [file.name for file in self.files], n=3, cutoff=0.4)
        hint = f"; near: {', '.join(near)}" if near else ""
        raise ConfigError(f"no input shard {text!r} among {len(self.files)}{hint}")


def observe_inputs(config: CorpusConfig, *, listed: Sequence[ListedInput] | None = None) -> InputManifest:
    """List the inputs of `config`, hash those whose signature changed, and publish inputs.json.

    Args:
        config: the corpus.
        listed: its inputs, where they are at hand; default: those at `config.input`.

    Raises:
        ConfigError: the input does not exist or holds no input shards.
    """
    if listed is None:
        listed = list_inputs(config.input, follow_symlinks=config.follow_symlinks)
    recorded = load_manifest(config.root) or InputManifest(files=())
    known = {(file.url, file.signature): file.fingerprint for file in recorded.files if file.fingerprint}
    unknown = [item for item in listed if (item.url, item.signature) not in known]
    with ThreadPoolExecutor(max_workers=config.workers) as pool:
        for item, fingerprint in zip(unknown, pool.map(_fingerprint, unknown), strict=True):
            known[item.url, item.signature] = fingerprint
    manifest = InputManifest(
        files=tuple(
            InputFile(
                key=item.key,
                name=item.name,
                url=item.url,
                size=item.size,
                signature=item.signature,
                fingerprint=known[item.url, item.signature],
            )
            for item in sorted(listed, key=lambda item: item.key)
        )
    )
    if manifest != load_manifest(config.root):
        _publish(manifest, config.root)
    return manifest


def load_manifest(root: Path) -> InputManifest | None:
    """What `observe_inputs` last published under `root`; None before the first time, and where it is damaged."""
    try:
        return InputManifest(files=_read(root / MANIFEST))
    except (FileNotFoundError, NotADirectoryError, IndexMismatchError):
        return None


def manifest_damage(root: Path) -> str | None:
    """What is wrong with the recorded inputs; None where they are sound, or not there."""
    path = root / MANIFEST
    try:
        _read(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return f"{path}: {error.strerror}, expected the inputs as last observed"
    except IndexMismatchError as error:
        return str(error)
    return None


def _fingerprint(item: ListedInput) -> str:
    """Digest of the content; empty for a file that cannot be read, which its build will report."""
    try:
        return content_sha256(item.url)
    except Exception:
        # Whatever stands in the way (permission, a vanished mount), it is this partition's failure alone.
        return ""


def _read(path: Path) -> tuple[InputFile, ...]:
    """The recorded inputs.

    Raises:
        OSError: there is no such file, or it cannot be read.
        IndexMismatchError: it is damaged.
    """
    import orjson
    from pydantic import ValidationError

    try:
        document = orjson.loads(read_regular(path))
        if isinstance(document, dict):  # earlier versions wrote the files alone
            refuse_changed(document, where=path)
            document = document.get("files")
        return _files_adapter().validate_python(document)
    except (orjson.JSONDecodeError, ValidationError) as error:
        what = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise IndexMismatchError(f"{path}: {what}; expected the inputs as last observed") from error


@cache
def _files_adapter() -> TypeAdapter[tuple[InputFile, ...]]:
    from pydantic import TypeAdapter

    return TypeAdapter(tuple[InputFile, ...])


def _publish(manifest: InputManifest, root: Path) -> None:
    document = {"files": [asdict(file) for file in manifest.files]}
    publish_bytes(root / MANIFEST, with_checksum(document), scratch=scratch_folder(root))
