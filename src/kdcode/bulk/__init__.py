"""Tables of any number of rows: parts of them encoded by a codebook, put together into one file, rows appended.

slices.py          parts cut into slices, each of which is encoded by itself
settings.py        EncodeSettings: how codes are searched for, and how large a slice is
manifest.py        manifest.json: what a folder of slices was made from
losses.py          RowLosses: how far vectors are from those of their codes, added up
slice_file.py      the Parquet file of a slice: ids and packed codes
encoding.py        encode_slice: what every engine calls
engines.py         where slices are encoded: in this process, or on Ray
encoding_run.py    encode_parts
assembly.py        assemble: the slices of a folder as one .kdc file
appending.py       append: rows added to a .kdc file
file_compression.py  compress_file: a codebook from a sample, all rows encoded and assembled
"""

from __future__ import annotations

from kdcode.bulk.appending import AppendReport, append
from kdcode.bulk.assembly import assemble
from kdcode.bulk.encoding_run import EncodeProgress, EncodeReport, encode_parts
from kdcode.bulk.settings import EncodeSettings

__all__ = [
    "AppendReport",
    "EncodeProgress",
    "EncodeReport",
    "EncodeSettings",
    "append",
    "assemble",
    "encode_parts",
]
