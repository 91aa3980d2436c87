"""The options of an nccl-tests binary for a case: letters, ranges and the release that brought each,
read from the sources of 1.0.0 to 2.19.6 (src/common.cu: `longopts`, `getopt_long`, the checks after
it).

An option is given only where it changes something: a binary answers an unknown option with its
usage and exit status 0, and a value that its NCCL cannot do it replaces silently. So both are
refused before a launch as far as the versions are known, and looked for in what it printed.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from busbw.model import BenchmarkCase, BinaryOptions, Collective, Command
from busbw.units import size_option
from busbw.versions import Version, dotted, release

MANY = 2**31 - 1
_UNVERSIONED: Version = (2, 17, 4)
"""The first release whose sources state their version: one that states none is older."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option of the binaries as a field of a case."""

    field: str
    """Of `BinaryOptions`, and of a case in a playbook."""
    letter: str
    meaning: str
    since: Version | None = None
    """First nccl-tests release with it; None = all that can be built today have it."""
    nccl: Version | None = None
    """NCCL that it needs; an older one makes nccl-tests ignore it."""
    least: int = 0
    most: int = 1
    names: tuple[str, ...] = ()
    """What the option is written as, where that is a word."""
    values_since: tuple[tuple[int | str, Version | None, Version | None], ...] = ()
    """(value, nccl-tests, NCCL) of single values that came later than the option."""

    @property
    def range(self) -> str:
        """What may be written, for people."""
        if self.names:
            return ", ".join(self.names)
        return f"{self.least} or more" if self.most == MANY else f"{self.least} to {self.most}"


TYPES = (
    "int8", "uint8", "int32", "uint32", "int64", "uint64",
    "half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2",
)  # fmt: skip
"""nccl-tests' own names; a binary that does not know one measures float in its place."""
OPERATIONS = ("sum", "prod", "min", "max", "avg", "mulsum")
_FP8 = ((2, 15, 0), (2, 24, 0))
OPTIONS = (
    Option(
        "datatype", "d", "element type", names=TYPES,
        values_since=(("bfloat16", (2, 10, 0), (2, 10, 0)), ("f8e4m3", *_FP8), ("f8e5m2", *_FP8)),
    ),
    Option(
        "operation", "o", "reduction", names=OPERATIONS,
        values_since=(("avg", (2, 10, 0), (2, 10, 0)), ("mulsum", (2, 11, 0), (2, 11, 0))),
    ),
    Option("root", "r", "root rank of broadcast, reduce, scatter and gather", most=MANY),
    Option("aggregate", "m", "operations launched together in each iteration", (2, 0, 0), least=1, most=MANY),
    Option("parallel_init", "p", "1 = one thread for each GPU initialises NCCL"),
    Option("null_stream", "y", "1 = the null stream", (2, 13, 4)),
    Option("graph_launches", "G", "iterations captured as a CUDA graph and replayed so often; 0 = none", (2, 10, 0), (2, 9, 0), most=MANY),
    Option("cpu_time", "C", "1 = the time of the CPU's launch in place of the collective's", (2, 13, 4)),
    Option("timestamps", "S", "1 = a time in each row", (2, 17, 6)),
    Option("average", "a", "time of an iteration: 0 rank 0, 1 mean, 2 least, 3 most of the ranks", (2, 10, 0), most=3),
    Option(
        "registration", "R", "buffers: 0 not registered, 1 registered, 2 symmetric memory",
        (2, 13, 10), (2, 19, 0), most=2, values_since=((2, (2, 16, 0), (2, 27, 0)),),
    ),
    Option(
        "cta_policy", "x", "NCCL's CTA policy: 0 default, 1 efficiency (fewer SMs), 2 zero CTA (copy engines)",
        (2, 17, 0), (2, 27, 0), most=2, values_since=((2, None, (2, 28, 0)),),
    ),
    Option(
        "device_implementation", "D", "kernel of the device API, 1 to 4, in place of NCCL's own; 0 = NCCL's",
        (2, 17, 0), (2, 28, 0), most=4,
    ),
    Option("device_ctas", "V", "CTAs of that kernel", (2, 17, 0), (2, 28, 0), least=1, most=128),
    Option("memory_report", "M", "1 = GPU memory that NCCL and the buffers take", (2, 17, 7)),
    Option("unalign", "u", "index of the first element: misaligns the buffers", (2, 18, 0), most=MANY),
    Option("skip_iterations", "K", "leading iterations left out of -I's summary", (2, 19, 6), most=MANY),
    Option("size_timeout_s", "T", "seconds after which the binary ends itself, for each test", (2, 13, 4), least=1, most=MANY),
)  # fmt: skip
BY_FIELD = {option.field: option for option in OPTIONS}
CASE_OPTIONS: tuple[tuple[str, str, str, Version | None], ...] = (
    ("sizes", "-b -e -f -i", "1G, 8..8G, 8..8G *4, 1M..16M +1M, or a list of these", None),
    ("iterations", "-n", "timed iterations of each size", None),
    ("warmup", "-w", "iterations before them", None),
    ("cycles", "-N", "how often the whole list of sizes is repeated", (2, 13, 10)),
    ("check", "-c", "iterations whose data is verified; 0 = none", None),
    ("blocking: 1", "-z", "wait and barrier after each operation", None),
    ("blocking: 2", "-z", "wait after each operation, no barrier", (2, 18, 1)),
    (
        "blocking: 3",
        "-z",
        "wait and barrier after each iteration, the barrier not timed",
        (2, 19, 2),
    ),
    ("per_iteration", "-I", "the time of each iteration", (2, 19, 2)),
    ("json", "-J", "the result as JSON too", (2, 17, 3)),
)
"""(field of a case, option, meaning, first release) of what is a field of a case itself."""
_FIXED = {
    "t": "one thread a process", "g": "one GPU a process", "h": "help measures nothing",
}  # fmt: skip
"""Options that busbw sets or leaves out itself: the proof of a launch counts a rank for each
process."""
_LONG = {
    "nthreads": "t", "ngpus": "g", "minbytes": "b", "maxbytes": "e", "stepbytes": "i",
    "stepfactor": "f", "iters": "n", "agg_iters": "m", "warmup_iters": "w", "run_cycles": "N",
    "parallel_init": "p", "check": "c", "op": "o", "datatype": "d", "root": "r", "blocking": "z",
    "stream_null": "y", "timeout": "T", "cudagraph": "G", "report_cputime": "C",
    "report_timestamps": "S", "output_file": "J", "average": "a", "local_register": "R",
    "cta_policy": "x", "device_implementation": "D", "device_cta_count": "V", "memory": "M",
    "unalign": "u", "per_iter_timing": "I", "per_iter_skip": "K", "help": "h",
}  # fmt: skip
_OF_CASE = {
    "b": "sizes", "e": "sizes", "f": "sizes", "i": "sizes", "n": "iterations", "w": "warmup",
    "N": "cycles", "c": "check", "z": "blocking", "I": "per_iteration", "J": "json",
} | {option.letter: option.field for option in OPTIONS}  # fmt: skip
_REDUCE = (Collective.ALL_REDUCE, Collective.REDUCE, Collective.REDUCE_SCATTER)
_ROOTED = (Collective.BROADCAST, Collective.REDUCE, Collective.SCATTER, Collective.GATHER)
_WITH_DEVICE_API = (Collective.ALL_REDUCE, Collective.ALLTOALL)


def arguments(case: BenchmarkCase, json_path: str | None) -> tuple[str, ...]:
    """The binary's arguments: one GPU per process (-g 1), sizes, iterations, checks, then the options
    of the case.

    >>> from busbw.model import Collective, Sizes
    >>> " ".join(arguments(BenchmarkCase("a", Collective.ALL_REDUCE, Sizes(8, 8 << 30)), None))
    '-b 8 -e 8G -f 2 -g 1 -n 20 -w 5 -c 1 -z 0'
    """
    sizes = case.sizes
    options = ["-b", size_option(sizes.minimum_bytes), "-e", size_option(sizes.maximum_bytes)]
    if sizes.minimum_bytes != sizes.maximum_bytes:
        if sizes.factor is not None:
            options += ["-f", str(sizes.factor)]
        elif sizes.increment_bytes is not None:
            options += ["-i", size_option(sizes.increment_bytes)]
    options += [
        "-g",
        "1",
        "-n",
        str(case.iterations),
        "-w",
        str(case.warmup),
        "-c",
        str(case.check),
        "-z",
        str(case.blocking),
    ]
    if case.cycles != 1:
        options += ["-N", str(case.cycles)]
    if case.per_iteration:
        options += ["-I", "1"]
    options += [word for option, value in _given(case.options) for word in _words(option, value)]
    if json_path is not None and case.json:
        options += ["-J", json_path]
    return (*options, *case.options.arguments)


def given(options: BinaryOptions) -> str:
    """What a case gives the binary beside sizes and iterations: `-R 2`."""
    words = (word for option, value in _given(options) for word in _words(option, value))
    return " ".join((*words, *options.arguments))


def _words(option: Option, value: int | str) -> tuple[str, str]:
    return f"-{option.letter}", str(value)


def _given(options: BinaryOptions) -> Iterator[tuple[Option, int | str]]:
    for option in OPTIONS:
        value = getattr(options, option.field)
        if value is not None:
            yield option, value


def written(options: BinaryOptions) -> str:
    """The options as the command line has them; "" = none is given.

    >>> written(BinaryOptions(datatype="bfloat16", registration=2))
    '-d bfloat16 -R 2'
    """
    words = [f"-{option.letter} {value}" for option, value in _given(options)]
    return " ".join((*words, *options.arguments))


def value_of(field: str, text: str) -> int | str:
    """A value as people write it.

    Raises:
        ValueError: the option has no such value.

    >>> value_of("registration", "2"), value_of("datatype", "bfloat16")
    (2, 'bfloat16')
    """
    value = int(text) if re.fullmatch(r"\d{1,9}", text) and not BY_FIELD[field].names else text
    fault = _bad_value(BY_FIELD[field], value)
    if fault:
        raise ValueError(fault)
    return value


def with_option(options: BinaryOptions, field: str, text: str) -> BinaryOptions:
    """The options with one more, or another value of one.

    Raises:
        ValueError: as `value_of`.
    """
    own = {each.name: getattr(options, each.name) for each in dataclasses.fields(options)}
    own[field] = value_of(field, text)
    return BinaryOptions(**own)


def _bad_value(option: Option, value: int | str) -> str:
    good = value in option.names
    if not option.names:
        good = isinstance(value, int) and option.least <= value <= option.most
    return "" if good else f"nccl-tests' -{option.letter} is {option.range}, not {value!r}"


def problems(case: BenchmarkCase) -> Iterator[tuple[str, str]]:
    """(field, what is wrong) of the options of a case, as far as no version is needed."""
    options = case.options
    for option, value in _given(options):
        fault = _bad_value(option, value)
        if fault:
            yield option.field, fault
    if options.operation is not None and case.collective not in _REDUCE:
        yield "operation", f"{case.collective} reduces nothing"
    if options.root is not None and case.collective not in _ROOTED:
        yield "root", f"{case.collective} has no root"
    if options.device_implementation:
        if options.registration != 2:
            yield "device_implementation", "the device API needs symmetric memory: registration: 2"
        if case.collective not in _WITH_DEVICE_API:
            names = " and ".join(_WITH_DEVICE_API)
            yield "device_implementation", f"nccl-tests has such kernels for {names} only"
    if options.graph_launches and (case.per_iteration or case.blocking == 3):
        field = "per_iteration" if case.per_iteration else "blocking: 3"
        yield "graph_launches", f"a CUDA graph has no single iterations: nccl-tests drops {field}"
    if options.skip_iterations is not None:
        if not case.per_iteration:
            yield "skip_iterations", "it is of per_iteration: true"
        elif options.skip_iterations >= case.iterations:
            yield "skip_iterations", f"of {case.iterations} iterations none would be left"
    if options.cpu_time and case.purpose != "diagnosis":
        yield "cpu_time", "the CPU's launch time is no bandwidth: purpose: diagnosis"
    yield from (("arguments", fault) for fault in _bad_arguments(options.arguments))


def _bad_arguments(words: Iterable[str]) -> Iterator[str]:
    """Nothing that a field says already may be said once more: which of the two counts would depend
    on their order."""
    for word in words:
        match = re.match(r"--([A-Za-z][\w-]*)|-([A-Za-z])", word)
        if match is None:
            continue
        # getopt_long takes any beginning of a long name that no other name has.
        letters = [
            letter for name, letter in _LONG.items() if match[1] and name.startswith(match[1])
        ]
        for letter in (match[2],) if match[2] else dict.fromkeys(letters):
            if letter in _FIXED:
                yield f"{word}: {_FIXED[letter]}; busbw counts on it"
            elif letter in _OF_CASE:
                yield f"{word} is the field {_OF_CASE[letter]} of the case"


def unsupported(
    case: BenchmarkCase, tests: str | None, nccl: str | None = None, *, sources: bool = True
) -> tuple[str, ...]:
    """What of the case the binary cannot do, each in words; () = nothing that is known.

    Args:
        tests: nccl-tests' version as its sources state it.
        nccl: that of the library; None = not known, then nothing is said of it.
        sources: False = a binary of unknown origin: a missing version says nothing.

    >>> from busbw.model import Sizes
    >>> case = BenchmarkCase("a", Collective.ALL_REDUCE, Sizes(8, 8), options=BinaryOptions(registration=2))
    >>> unsupported(case, "2.15.0")
    ('registration: 2 (-R 2) needs nccl-tests 2.16.0, this is 2.15.0',)
    """
    have = release(tests)
    library = release(nccl)
    found = []
    for name, letter, needs, needs_nccl in _needs(case):
        text = f"{name} (-{letter})"
        if needs is not None and have and have < needs:
            found.append(f"{text} needs nccl-tests {dotted(needs)}, this is {tests}")
        elif needs is not None and not have and sources and needs >= _UNVERSIONED:
            found.append(
                f"{text} needs nccl-tests {dotted(needs)}, this states no version: it is older than"
                f" {dotted(_UNVERSIONED)}"
            )
        if needs_nccl is not None and library and library < needs_nccl:
            found.append(f"{text} needs NCCL {dotted(needs_nccl)}, the nodes have {nccl}")
    return tuple(found)


def _needs(case: BenchmarkCase) -> Iterator[tuple[str, str, Version | None, Version | None]]:
    """(field: value, letter and value, nccl-tests, NCCL) of each option that is given."""
    for option, value in _given(case.options):
        since, nccl = option.since, option.nccl
        for late, late_since, late_nccl in option.values_since:
            if value == late:
                since, nccl = late_since or since, late_nccl or nccl
        yield f"{option.field}: {value}", f"{option.letter} {value}", since, nccl
    if case.cycles != 1:
        yield f"cycles: {case.cycles}", f"N {case.cycles}", (2, 13, 10), None
    if case.blocking >= 2:
        since = (2, 18, 1) if case.blocking == 2 else (2, 19, 2)
        yield f"blocking: {case.blocking}", f"z {case.blocking}", since, None


_FETCH = """\
[ -r "$1" ] || exit 1
s='[[:space:]]*' text='"([^"\\\\]|\\\\.)*'
tr '\\n' '\\r' < "$1" | sed -E "s/\\"env\\":$s\\[($s$text\\"$s,?)*$s(\\]|($text\\\\\\\\?)?\\$)/\\"env\\":[]/" | tr '\\r' '\\n'
"""


def fetch_json(path: str, store: str) -> Command:
    """The JSON at `path`, kept as `raw/<store>`, without the environment of the ranks: nccl-tests
    writes all of it, tokens too, and none of it may leave the node. Exit status non-zero = there is
    no such file.
    """
    return Command(
        ("sh", "-c", _FETCH, "busbw-fetch", path), timeout_s=300, label="fetch", store=store
    )
