"""TextFormat: a document is one string."""

from __future__ import annotations

from typing import Any

from corpus_assets.formats.pieces import Piece, PiecewiseFormat
from corpus_assets.sources.rows import text_of


class TextFormat(PiecewiseFormat):
    """The string at `text_field`: the documents of a corpus without shapes, with annotations beside them."""

    name = "text"
    has_mask = False

    def pieces(self, record: dict[str, Any]) -> list[Piece]:
        """The one text."""
        return [Piece(text_of(record, self.text_field))]
