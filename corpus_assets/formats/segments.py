"""SegmentsFormat: a document is a list of texts, each trained on or not."""

from __future__ import annotations

from typing import Any

from corpus_assets.formats.pieces import Piece, PiecewiseFormat
from corpus_assets.formats.protocol import RecordRejected
from corpus_assets.sources.rows import kind_of

BAD_SEGMENTS = "bad_segments"


class SegmentsFormat(PiecewiseFormat):
    """`[{"text": "…", "train": true}, …]`: a loss mask of 1 where `train` is true, 0 where it is false."""

    name = "segments"
    has_mask = True

    def pieces(self, record: dict[str, Any]) -> list[Piece]:
        """One piece per segment."""
        pieces = []
        for place, segment in enumerate(self.items(record, reason=BAD_SEGMENTS)):
            where = f"{self.text_field}[{place}]"
            text = self.string(segment, "text", where=where, reason=BAD_SEGMENTS)
            train = segment.get("train")
            if not isinstance(train, bool):
                found = kind_of(train) if "train" in segment else "missing"
                raise RecordRejected(BAD_SEGMENTS, f"{where}.train is {found}, expected true or false")
            pieces.append(Piece(text, train))
        return pieces
