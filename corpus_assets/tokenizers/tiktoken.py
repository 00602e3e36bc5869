"""TiktokenTokenizer: an encoding of `tiktoken`, from a rank file or by name from the local cache."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from corpus_assets.errors import TokenizerError
from corpus_assets.tokenizers.boundary import find_boundary
from corpus_assets.tokenizers.offsets import tokens_of_encoding
from corpus_assets.tokenizers.protocol import TextTokens
from corpus_assets.tokenizers.vocabulary_tokenizer import Identity, VocabularyTokenizer

if TYPE_CHECKING:
    from numpy.typing import NDArray

_loading = threading.Lock()


class TiktokenTokenizer(VocabularyTokenizer):
    """The ids of `encode_ordinary`: special strings inside a text are text.

    Args:
        spec: path to a `.tiktoken` rank file with `<stem>.json` beside it, which holds `pat_str`,
            `special_tokens` (id by token) and optionally `boundary_token`; or the name of an encoding
            whose files are in TIKTOKEN_CACHE_DIR. Nothing is downloaded.
        boundary_token: the token that follows every document; by default the one that the JSON file names,
            else the only end-of-text token among the special ones.
    """

    def __init__(self, spec: str, *, boundary_token: str | None = None) -> None:
        if spec.endswith(".tiktoken"):
            encoding, stated = _from_file(Path(spec))
            name = Path(spec).name
        else:
            encoding, stated, name = _by_name(spec), None, spec
        special = {token: encoding.encode_single_token(token) for token in encoding.special_tokens_set}
        boundary = find_boundary(
            spec, vocabulary=special, special=special, asked=boundary_token, stated=stated
        )
        super().__init__(
            Identity(
                spec=spec,
                asked_boundary=boundary_token,
                name=name,
                definition=_definition(encoding, special),
                boundary_id=special[boundary],
                max_token_id=encoding.max_token_value,
            )
        )
        self.boundary_token = boundary
        self._encoding = encoding

    def _encode_many(self, texts: Sequence[str]) -> list[Any]:
        return [encode_ordinary(self._encoding, text) for text in texts]

    def _tokens_of(self, text: str, ids: list[int]) -> TextTokens | None:
        return tokens_of_encoding(self._encoding, text, ids)

    def _decode(self, ids: list[int]) -> str:
        return self._encoding.decode(ids)


def encode_ordinary(encoding: Any, text: str) -> NDArray[np.uint32]:
    """Ids of one text; a lone surrogate raises, where tiktoken's own method replaces it.

    A list by way of `array` is faster than `encode_to_numpy`, which looks for special tokens (17 and 12 MB/s).
    """
    if not text.isascii():
        text.encode("utf-8")
    return np.frombuffer(array("I", encoding.encode_ordinary(text)), np.uint32)


def _definition(encoding: Any, special: dict[str, int]) -> str:
    digest = hashlib.sha256(json.dumps([encoding._pat_str, sorted(special.items())]).encode())
    for token, rank in sorted(encoding._mergeable_ranks.items(), key=lambda item: item[1]):
        digest.update(b"%d %s\n" % (rank, base64.b64encode(token)))
    return digest.hexdigest()


def _from_file(path: Path) -> tuple[Any, str | None]:
    import tiktoken

    ranks = _read_ranks(path)
    beside = path.with_suffix(".json")
    try:
        settings = json.loads(beside.read_bytes())
        pattern, special = settings["pat_str"], settings["special_tokens"]
        special = {str(token): int(value) for token, value in special.items()}
        stated = settings.get("boundary_token")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise TokenizerError(
            f"{beside}: cannot be used ({type(error).__name__}: {error}); expected a JSON object with "
            "`pat_str` and `special_tokens` (id by token) beside the rank file"
        ) from error
    clash = set(special.values()) & set(ranks.values())
    if clash or len(set(special.values())) != len(special):
        raise TokenizerError(
            f"{beside}: special_tokens: ids {sorted(clash)[:5]} are taken, expected free ones"
        )
    try:
        encoding = tiktoken.Encoding(
            path.name, pat_str=pattern, mergeable_ranks=ranks, special_tokens=special
        )
    except BaseException as error:  # a bad pattern is a ValueError, missing ranks are a Rust panic
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise TokenizerError(f"{path}: is not an encoding: {error}") from error
    return encoding, stated


def _read_ranks(path: Path) -> dict[bytes, int]:
    """Rank by token; read here because tiktoken's own reader answers from a cache by path."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise TokenizerError(f"{path}: cannot be read: {error.strerror}") from error
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(lines, 1):
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except ValueError as error:
            raise TokenizerError(
                f"{path}: line {number} is {line[:60]!r}, expected a token in base64 and its rank"
            ) from error
    missing = [byte for byte in range(256) if bytes([byte]) not in ranks]
    if missing or len(set(ranks.values())) != len(lines):
        found = f"no token for byte {missing[0]}" if missing else "a token or a rank twice"
        raise TokenizerError(f"{path}: {found}, expected every byte and every rank once")
    return ranks


def _by_name(name: str) -> Any:
    import tiktoken

    known = tiktoken.list_encoding_names()
    if name not in known:
        raise TokenizerError(
            f"{name}: unknown tokenizer, expected `byte`, a path to a tokenizer.json or a .tiktoken file, "
            f"or one of {', '.join(known)}"
        )
    try:
        with _nothing_downloaded():
            return tiktoken.get_encoding(name)
    except Exception as error:  # plugins raise what they like
        raise TokenizerError(
            f"{name}: its files are not in the local cache ({error}); expected them in the folder that "
            "TIKTOKEN_CACHE_DIR names, or the path to a .tiktoken file instead"
        ) from error


@contextmanager
def _nothing_downloaded() -> Iterator[None]:
    """A build must not depend on the network: let tiktoken read its cache and local files only."""
    import tiktoken.load

    def local_only(blobpath: str) -> bytes:
        if "://" in blobpath:
            raise OSError(f"no cached copy of {blobpath}")
        return read_file(blobpath)

    with _loading:
        read_file = tiktoken.load.read_file
        tiktoken.load.read_file = local_only
        try:
            yield
        finally:
            tiktoken.load.read_file = read_file
