"""Packing by hand: the byte tokenizer makes id byte + 1 of every byte, and 0 is the boundary."""

from corpus_assets import ByteTokenizer
from corpus_assets.formats import record_format
from corpus_assets.formats.batch import pack_record


def pack(record, *, format, tokenizer=None, **options):
    """The document of `record`: its ids with the boundary, fields and spans as plain lists."""
    made = record_format(format, **options) if isinstance(format, str) else format
    document = pack_record(made, record, tokenizer or ByteTokenizer())
    assert document.ends.tolist() == [len(document.ids)]
    return (
        document.ids.tolist(),
        {name: values.tolist() for name, values in document.fields.items()},
        {
            name: list(zip(table.starts.tolist(), table.stops.tolist(), table.values, strict=True))
            for name, table in document.spans.items()
        },
    )
