"""One pass over a text for all who look at it: the search for expressions, the reader of nccl-tests'
tables, and the search for its JSON documents."""

from __future__ import annotations

import functools
from collections.abc import Callable

from busbw import intake
from busbw.errors import UnknownLayout
from busbw.parsers.logs import Document
from busbw.parsers.logs.scan import Scan, Scanner, Search
from busbw.parsers.nccl_tests import results_json
from busbw.parsers.nccl_tests.table import FORMAT


class OnePass:
    """What one text has in its lines; it is read when the first of that is asked for."""

    def __init__(self, source: intake.Source, scanner: Callable[[], Scanner]) -> None:
        """scanner: makes the scanner, which takes longer than reading a small text."""
        self.source = source
        self.scanner = scanner
        self.problem = ""
        """Why the text was not whole, once it was read."""

    @property
    def scan(self) -> Scan:
        """Where the scanner's expressions match.

        Raises:
            UsageError, ReadError: as `intake.Source.open`, and as reading does.
        """
        return self._read[0]

    def table(self) -> Document:
        """What stands in it of nccl-tests' tables.

        Raises:
            UnknownLayout: nothing.
            UsageError, ReadError: as `scan`.
        """
        table = self._read[1]
        if isinstance(table, functools.partial):
            raise table()
        return table

    def results_json(self) -> Document:
        """What stands in it of nccl-tests' JSON documents. It is read once more only where one can be.

        Raises:
            UnknownLayout: nothing.
            UsageError, ReadError: as `scan`.
        """
        if not self._read[2]:
            raise results_json.no_document()
        return results_json.read(self.source.open())

    @functools.cached_property
    def _read(self) -> tuple[Scan, Document | functools.partial[UnknownLayout], bool]:
        reading = self.source.open()
        search = Search(self.scanner(), reading)
        pieces = results_json.MarkSearch(search)
        table: Document | functools.partial[UnknownLayout]
        try:
            table = FORMAT.read(pieces)
        except UnknownLayout as error:
            # The error has the frames that it went through, and they have all that was read: kept, it
            # would keep that as well until Python looks for cycles.
            again = {"seen": error.seen, "next_step": error.next_step}
            table = functools.partial(UnknownLayout, error.what, **again)
        for _ in pieces:
            pass  # what the reader of tables left
        scan = search.result()
        self.problem = reading.problem
        return scan, table, pieces.has_any
