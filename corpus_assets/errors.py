"""What can go wrong, as one tree.

CorpusError                     the world is not as it should be; the message says where, found, expected
├── ConfigError                 corpora.yaml, an option or a folder it names
├── InputError                  one input shard cannot become a token shard
│   ├── InputUnreadableError    truncated, corrupt, unknown format, missing
│   ├── InputChangedError       the file changed while it was read
│   └── TooManyRejectsError     more rows rejected than the configuration allows, or no document at all
├── TokenizerError              a tokenizer file that is not one, a boundary token that does not exist
├── ShardError                  a token shard whose content is not what its record says
├── IndexMismatchError          shards.json disagrees with itself or with the files
├── MissingShardsError          the index would not cover every input shard
├── CorpusTooShortError         not one whole window; a ValueError too, since the window is the caller's choice
├── NotReleasedError            the corpus did not pass its gate
├── DiskSpaceError              a build would not fit on the disk
├── LeaseError                  another builder holds the partition
└── StateMismatchError          a loader state that belongs to another corpus or another order

What the caller does wrong (a negative index, an unknown order) is a ValueError or IndexError.
"""

import os
import re


class CorpusError(Exception):
    """Base of everything this package raises about the state of the world."""


class ConfigError(CorpusError):
    """The configuration cannot be used as it stands."""


class InputError(CorpusError):
    """One input shard cannot become a token shard; its neighbours are not affected."""


class InputUnreadableError(InputError):
    """The input cannot be read to its end."""


class InputChangedError(InputError):
    """The input changed while it was read."""


class TooManyRejectsError(InputError):
    """More rows were rejected than the configuration allows."""


class TokenizerError(CorpusError):
    """The tokenizer cannot be loaded or does not fit the request."""


class ShardError(CorpusError):
    """A token shard is not what its record says."""


class IndexMismatchError(CorpusError):
    """An index disagrees with itself or with the files that it names."""


class MissingShardsError(CorpusError):
    """Input shards without a current token shard."""


class CorpusTooShortError(CorpusError, ValueError):
    """The corpus has not one whole window, or with tail="drop" not one global batch of them."""


class NotReleasedError(CorpusError):
    """The corpus has no release for its present index."""


class DiskSpaceError(CorpusError):
    """A build would not fit on the disk."""


class LeaseError(CorpusError):
    """A partition is being built by someone else, or the lease was lost."""


class StateMismatchError(CorpusError):
    """A loader state that belongs to another corpus or another order."""


def one_line(text: object, *, limit: int = 300) -> str:
    """What somebody else wrote as a message may show it: in one line, unprintable characters escaped, cut at `limit`."""
    whole = str(text)
    shown = whole[:limit]
    if not shown.isprintable():
        shown = "".join(
            char if char.isprintable() else char.encode("unicode_escape").decode() for char in shown
        )[:limit]
    return shown if len(whole) <= limit else f"{shown}… ({len(whole)} characters)"


def system_error(error: Exception, *, place: object = None) -> str | None:
    """What the operating system refused, and where, in one line; None where it was something else.

    HDF5 says it in many words of its own, and as a RuntimeError too. `place` is named where the error names none.
    """
    number = re.search(r"errno = (\d+)", str(error))
    if number is not None:
        named = re.search(r"filename = '([^']*)'", str(error))
        what, where = os.strerror(int(number[1])), named[1] if named else place
    elif isinstance(error, OSError):
        what, where = error.strerror or str(error), error.filename or place
    else:
        return None
    return one_line(what if where is None else f"{what} ({where})", limit=4000)
