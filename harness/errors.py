"""The error tree; each class knows the exit status it ends the program with.

::

    BusbwError
    ├── UsageError            2   the command line, a file given by the user, or their combination
    │   ├── InventoryError    2   the list of nodes
    │   ├── PlaybookError     2   the run plan or the fabric profile
    │   └── BusyError         2   the nodes are in use by somebody else
    ├── ReadError             3   a text that should be read could not be
    │   └── UnknownLayout     3   nothing in it is in a layout busbw knows
    ├── MeasureError          3   the measurement could not be made
    │   ├── ReachError        3   no node, or not enough nodes, could be reached
    │   ├── BuildError        3   the benchmark could not be built
    │   └── LaunchError       3   the launcher failed before anything was measured
    ├── RunDirError           3   a run directory is missing, foreign or half written
    │   └── NoRunError        2   the folder that the user named is no run directory
    ├── LabError              3   the embedded lab could not do what was requested
    │   └── NoLabError        2   there is no lab, or part of it, of the name that the user gave
    └── Interrupted         130   stopped by the user; what was measured is kept

One node failing is a value in a result (`Unreachable`, `CommandResult.exit_status`), never one of
these; an error ends the whole operation.
"""

from __future__ import annotations


class BusbwError(Exception):
    """An error for the user in three lines: what failed, what was seen (verbatim), what to do
    next."""

    exit_status = 3

    def __init__(self, what: str, *, seen: str = "", next_step: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.seen = seen
        self.next_step = next_step

    def lines(self) -> tuple[str, ...]:
        """The message as printed: `error: …`, then `seen: …` and `next: …` where there is something
        to say.

        Each is one line of the three; line breaks inside a part are kept and indented under it, so
        nothing verbatim is lost."""
        parts = [("error", self.what), ("seen", self.seen), ("next", self.next_step)]
        return tuple(
            f"{label}: " + text.rstrip("\n").replace("\n", "\n      ")
            for label, text in parts
            if text
        )


class UsageError(BusbwError):
    """The command line, a file given by the user, or their combination cannot be acted on."""

    exit_status = 2


class InventoryError(UsageError):
    """The list of nodes is wrong or empty."""


class PlaybookError(UsageError):
    """The run plan or the fabric profile is wrong."""


class BusyError(UsageError):
    """The nodes are in use by somebody else; the owner is named."""


class ReadError(BusbwError):
    """A text that should be read could not be."""


class UnknownLayout(ReadError):
    """Nothing in the text is in a layout busbw knows; the message quotes the line."""


class MeasureError(BusbwError):
    """The measurement could not be made."""


class ReachError(MeasureError):
    """No node, or not enough nodes, could be reached."""


class BuildError(MeasureError):
    """The benchmark could not be built; `seen` is the compiler's own text."""


class LaunchError(MeasureError):
    """The launcher failed before anything was measured; `seen` is its own text."""


class RunDirError(BusbwError):
    """A run directory is missing, foreign or half written."""


class NoRunError(RunDirError):
    """The folder that the user named is not there, or is no run directory."""

    exit_status = 2


class LabError(BusbwError):
    """The embedded lab could not do what was requested."""


class NoLabError(LabError):
    """There is no lab, or no part of it, of the name that the user gave."""

    exit_status = 2


class Interrupted(BusbwError):
    """Stopped by the user; what was measured is kept and the run can be resumed."""

    exit_status = 130
