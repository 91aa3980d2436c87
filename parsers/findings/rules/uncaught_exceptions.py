"""An exception that ends the user's program and that no other sign knows: a mistake in its code, its
input or its settings, and none of the fabric.

Written against the built-in exceptions of Python 3.13, the messages of PyTorch 2.8 about shapes and
types, libstdc++'s `std::logic_error` family, and the runtimes of gfortran 14 and Intel Fortran.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from busbw.parsers.findings.catalogue import Role, Weight, load
from busbw.parsers.findings.crashes import is_read_further_down
from busbw.parsers.findings.evidence import Clue, Place, Sighting, View
from busbw.parsers.findings.named_places import places
from busbw.parsers.findings.rules import Fires, Rule, Watch

_FINDING, _REJECTED = "program-error", "framework-setting-rejected"
_TAGS = r"^ {0,8}(?:[\w.-]{1,64}:\s{1,8})?(?:\[?(?:rank|default)?\d{1,6}\]?:\s{0,8}|\([^)]{1,60}\)\s{0,8})?"
"""A host's name, a rank or a process, as launchers put them before a line."""
_EXCEPTION = Watch(
    "exception",
    _TAGS + r"(?:[\w.]+\.)?(?-i:TypeError|AttributeError|NameError|UnboundLocalError|SyntaxError"
    r"|IndentationError|IndexError|KeyError|ValueError|AssertionError|ZeroDivisionError"
    r"|NotImplementedError|RecursionError|UnicodeDecodeError|JSONDecodeError|FileNotFoundError"
    r"|OverflowError)(?:: |:?\s*$)",
    unless=r"\bnan\b|\binf\b|not finite|non-?finite|checksum|corrupt",
)
"""Numbers that went bad may come from the hardware too."""
_INPUT = Watch(
    "input",
    _TAGS + r"(?:binascii|yaml|toml|json|pandas|numpy|omegaconf|hydra|pydantic\w*|pickle|struct|csv"
    r"|configparser|h5py|PIL|sklearn|jsonschema|click)\.[\w.]*(?:Error|Exception)\b",
)
"""Exceptions of packages that read input and settings."""
_TENSORS = Watch(
    "tensors",
    r"RuntimeError: (?:mat1 and mat2 shapes|The size of tensor a|Sizes of tensors must match"
    r"|Expected all tensors to be on|Error\(s\) in loading state_dict|element 0 of tensors does not"
    r"|Trying to backward|shape '.* is invalid|expected scalar type|Input type \(|stack expects each"
    r"|Given groups=|one of the variables needed for gradient|The expanded size of the tensor)",
)
_ARGUMENTS = Watch(
    "arguments",
    r"File \"[^\"]*/(?:(?:site|dist)-packages|megatron|fairseq|nemo|verl|deepspeed|transformers)/(?:[^\"]*/)?"
    r"\w*(?:arguments|args|arg_utils|config|configuration|config_utils|options|argparse)\w*\.py\", line \d+",
    keep=64,
)
"""Frames in the part of a framework that checks what it was asked for."""
_FRAMES = Watch("frames", r"File \"[^\"\n]+\", line \d+, in \S", keep=256)
_LIBRARY = re.compile(
    r"File \"[^\"]*(?:(?:site|dist)-packages|/lib(?:64)?/python|<frozen|/(?:vllm|sglang|megatron|deepspeed|torch|ray|transformers"
    r"|fairseq|nemo|verl|lightning|accelerate)/)"
)
"""Frames in an interpreter's own modules, in packages, and in frameworks that run from their sources."""
_OWN = re.compile(r"\b(?:Type|Attribute|Name|UnboundLocal|Index|Key|ZeroDivision|Assertion)Error\b")
"""What is the mistake of the code that raises it, wherever another sign knows its words."""
_NEAR = 4
"""Lines at most from the innermost frame to the last line of its exception."""
_RUNTIME = Watch(
    "runtime",
    r"Fortran runtime error: |forrtl: severe \((?!174|41|78)|instance of 'std::(?:out_of_range"
    r"|invalid_argument|logic_error|length_error|domain_error)",
)
_FIELD = Watch(
    "field",
    r"torch|cuda|nccl|\bgpus?\b|\bmpi|srun:|slurm|vllm|deepspeed|tensorflow|horovod|\[rank\d+\]"
    r"|rtran runtime|forrtl|instance of 'std::",
    keep=1,
    enough=0,
)
"""A job of this field: what a web server's traceback says is not ours to judge."""
_WATCHES = (_EXCEPTION, _INPUT, _TENSORS, _RUNTIME)
_SURE = (Weight.STRONG, Weight.CERTAIN)


def _judge(view: View) -> Iterator[Clue]:
    lines = {line.place: line for watch in _WATCHES for line in view.sightings(watch.name)}
    ours = {line.place.text for line in view.sightings(_FIELD.name)} if lines else set()
    if not ours:
        return
    known = load().by_id
    signs = [clue for clue in view.clues if clue.weight is not Weight.EXCLUDES]
    causes = [each for each in signs if known[each.symptom].role is Role.CAUSE]
    own = _of_own_code(lines, view.each(_FRAMES.name))
    surely_read = {each.place for each in causes if each.weight in _SURE}
    for place in sorted(own - surely_read):
        if place.text in ours:
            yield lines[place].clue(_FINDING, Weight.STRONG, "program", places(lines[place].text))
    # An exception that another sign reads is that sign's, and so is what its callers add to it.
    if any(each.place in lines for each in causes):
        return
    checks = [line.place for line in view.sightings(_ARGUMENTS.name)]
    read = {clue.place for clue in signs}
    read.update(each.place for each in lines.values() if is_read_further_down(each, read))
    is_other = any(each.weight in _SURE for each in causes)
    weight = Weight.WEAK if is_other else Weight.STRONG
    for place in sorted(each for each in lines.keys() - read - own if each.text in ours):
        where = places(lines[place].text)
        if any(_is_behind(place, check) for check in checks):
            yield lines[place].clue(_REJECTED, Weight.WEAK, "program", where)
            yield lines[place].clue(_FINDING, Weight.WEAK, "program", where)
        else:
            yield lines[place].clue(_FINDING, weight, "program", where)


def _of_own_code(lines: Mapping[Place, Sighting], frames: Iterable[Sighting]) -> set[Place]:
    """Where exceptions stand that the user's own code raised: their innermost frame is in no library."""
    near_of = {
        place: [place._replace(line_no=place.line_no - back) for back in range(1, _NEAR + 1)]
        for place, line in lines.items()
        if _OWN.search(line.text) is not None
    }
    near_any = {each for near in near_of.values() for each in near}
    numbered = {frame.place: frame for frame in frames if frame.place in near_any}
    own = set()
    for place, near in near_of.items():
        frame = next((numbered[each] for each in near if each in numbered), None)
        if frame is not None and _LIBRARY.search(frame.text) is None:
            own.add(place)
    return own


def _is_behind(place: Place, frame: Place) -> bool:
    """The exception ends right behind that frame: it was raised there."""
    return place.text == frame.text and 0 < place.line_no - frame.line_no <= _NEAR


RULE = Rule(
    name="uncaught-exceptions",
    conclusion=(
        "An exception of the program's own code (a wrong type, name, index, value or shape) that no"
        " other sign reads is the program's own error."
    ),
    watches=(*_WATCHES, _ARGUMENTS, _FRAMES, _FIELD),
    judge=_judge,
    fires=(
        Fires("srun: error: a: task 0: Exited\nKeyError: 'lr'\n", ((_FINDING, "strong"),)),
        Fires("[rank3]: json.decoder.JSONDecodeError: Extra data\n", ((_FINDING, "strong"),)),
        Fires("gpu7: [rank9]: binascii.Error: Incorrect padding\n", ((_FINDING, "strong"),)),
        Fires(
            " 3: torch 2.8\n 3: RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x4 and 8x4)\n",
            ((_FINDING, "strong"),),
        ),
        Fires("Fortran runtime error: End of file\n", ((_FINDING, "strong"),)),
        Fires(
            'torch\n  File "/a/megatron/training/arguments.py", line 9, in validate\n    assert x\nAssertionError\n',
            ((_REJECTED, "weak"), (_FINDING, "weak")),
        ),
        Fires(
            'torch\n  File "/home/me/train.py", line 9, in main\n    save(m, best=1)\n'
            "TypeError: save() got an unexpected keyword argument 'best'\n",
            ((_FINDING, "strong"),),
        ),
    ),
    silent=(
        "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1970, unhandled system error\n",
        "    raise ValueError(\n",
        "KeyError: 'database'\n",
        "torch\nAssertionError: Rank 3: found NaN in the gradients\n",
        "torch\n    except KeyError:\n",
        "torch.OutOfMemoryError: CUDA out of memory.\n",
    ),
)
