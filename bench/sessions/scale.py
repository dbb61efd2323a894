"""How large the inputs of a measurement are, and how often it is run."""

from __future__ import annotations

from attrs import frozen


@frozen(kw_only=True)
class Scale:
    """``many_entries`` are lines of a transcript, ``many_keys`` rows of the entry table; sizes are bytes."""

    few_entries: int = 10
    many_entries: int = 1_000_000
    small_bytes: int = 1_000_000
    large_bytes: int = 500_000_000
    few_keys: int = 100
    many_keys: int = 100_000
    runs: int = 15
    #: Operations of one run: cheap ones, and those that take milliseconds.
    cheap: int = 200
    dear: int = 20
    #: Bytes that must be free on the disk: for the measurements that write large files, and for the others.
    large_free: int = 1_500_000_000
    small_free: int = 300_000_000


FULL = Scale()
#: Shows that the measurements work; its ratios say little.
QUICK = Scale(
    many_entries=20_000,
    large_bytes=10_000_000,
    many_keys=2_000,
    runs=3,
    cheap=50,
    dear=5,
    large_free=200_000_000,
)
