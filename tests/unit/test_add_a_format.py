"""Adding a text format is adding one file: a scratch copy of the package gets a module, and `busbw
read` uses it."""

from __future__ import annotations

import json
from pathlib import Path

from scratch_copy import scratch_copy

MODULE = '''\
"""What the weather station in the machine room prints."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from busbw.errors import UnknownLayout
from busbw.parsers.logs import Document, Format


@dataclass(frozen=True, slots=True)
class Reading:
    """One sample."""

    celsius: float


def looks_like(head: bytes) -> float:
    return 1.0 if head.startswith(b"WEATHER ") else 0.0


def read(chunks: Iterable[bytes]) -> Document:
    text = b"".join(chunks).decode()
    if not text.startswith("WEATHER "):
        raise UnknownLayout("no weather in it", seen=text[:200])
    reading = Reading(float(text.split()[1]))
    return Document("weather", (reading,), (("air", f"{reading.celsius} °C"),), True, ())


FORMAT = Format("weather", "weather station", looks_like, read)
'''


def test_a_format_is_one_new_module_and_nothing_else(tmp_path: Path) -> None:
    copy = scratch_copy(tmp_path)
    (copy.package / "parsers/logs/weather_station.py").write_text(MODULE)
    text = tmp_path / "room.txt"
    text.write_text("WEATHER 21.5\n")

    done = copy.run("read", "--json", str(text))

    assert (done.returncode, done.stderr) == (0, "")
    assert copy.changed() == ["parsers/logs/weather_station.py"]
    document = json.loads(done.stdout)
    assert (document["kind"], document["format"]) == ("weather", "weather station")
    (weather,) = document["also"]
    assert weather["records"] == [{"celsius": 21.5}]
