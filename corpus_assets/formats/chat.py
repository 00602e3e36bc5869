"""ChatFormat: a document is a conversation, trained on the messages of some roles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from corpus_assets.formats.pieces import Piece, PiecewiseFormat
from corpus_assets.shapes import DEFAULT_TEMPLATE, DEFAULT_TRAIN_ROLES, split_template
from corpus_assets.sources.rows import RowError, value_at

BAD_MESSAGES = "bad_messages"


class ChatFormat(PiecewiseFormat):
    """`[{"role": "user", "content": "…"}, …]`, each message written by `template`, end to end.

    A message is two pieces: what the template puts before the content, which is never trained on, and the
    content with what follows it, which is trained on where the role is one of `train_roles`. So a model
    learns to answer and to end its answer, not to ask; and the ids do not depend on `train_roles`. Other
    keys of a message are not read.

    Args:
        text_field: where the messages stand in a record.
        train_roles: roles whose messages are trained on.
        template: the text of one message, with `{content}` once and `{role}` anywhere.
        spans: where annotations stand in a record; they count characters of the messages as written.
    """

    name = "chat"
    has_mask = True

    def __init__(
        self,
        *,
        text_field: str = "text",
        train_roles: Sequence[str] = DEFAULT_TRAIN_ROLES,
        template: str = DEFAULT_TEMPLATE,
        spans: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(text_field=text_field, spans=spans)
        self._train_roles = frozenset(train_roles)
        self._template = template
        self._before, self._behind = split_template(template)

    @property
    def options(self) -> dict[str, Any]:
        """All that decides what `pack` makes of a record."""
        roles = sorted(self._train_roles)
        return super().options | {"train_roles": roles, "template": self._template}

    def pieces(self, record: dict[str, Any]) -> list[Piece]:
        """Two pieces per message; a template without anything before the content gives one."""
        pieces = []
        for place, message in enumerate(self.items(record, reason=BAD_MESSAGES)):
            where = f"{self.text_field}[{place}]"
            role = self.string(message, "role", where=where, reason=BAD_MESSAGES)
            content = self.string(message, "content", where=where, reason=BAD_MESSAGES)
            if before := role.join(self._before):
                pieces.append(Piece(before, train=False))
            pieces.append(Piece(content + role.join(self._behind), train=role in self._train_roles))
        return pieces


def roles_of(record: dict[str, Any], text_field: str) -> set[str]:
    """The roles of the messages at `text_field`; none where the record does not have the shape."""
    try:
        messages = value_at(record, text_field)
    except RowError:
        return set()
    roles = (
        [item.get("role") for item in messages if isinstance(item, dict)]
        if isinstance(messages, list)
        else []
    )
    return {role for role in roles if isinstance(role, str)}
