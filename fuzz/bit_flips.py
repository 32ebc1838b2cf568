"""One bit of a .kdc file flipped, anywhere in it: `kdcode.verify` must find every one.

    python fuzz/bit_flips.py --count 10000 --seed 0

The file is of any kind of table, with symbols or without, of one digest block or several. Half of the bits are drawn
from the whole file, and half from one of its parts, so that short tensors have their share.
"""

from __future__ import annotations

from contextlib import suppress

import harness
from case_worker import Case, WrongError
from kdc_samples import any_sample

import kdcode
from kdcode.errors import KdcodeError, NoRowsError


def check(case: Case) -> str:
    """Flip one bit, and verify the file."""
    random = case.random
    good = any_sample(random, large=random.random() < 0.1)
    regions = good.regions
    places = random.choice(list(regions.values())) if random.random() < 0.5 else range(len(good.content))
    place, bit = random.choice(places), random.randrange(8)
    content = bytearray(good.content)
    content[place] ^= 1 << bit
    path = case.folder / "t.kdc"
    path.write_bytes(content)
    region = next(name for name, places in regions.items() if place in places)
    try:
        with suppress(NoRowsError):  # all that is wrong with a codebook that is whole
            kdcode.verify(path)
    except KdcodeError:
        return f"found in {region}"
    raise WrongError(f"{good.name}: bit {bit} of byte {place}, in {region}, was not found")


if __name__ == "__main__":
    raise SystemExit(harness.main("bit_flips", check, count=10_000))
