"""Tags of launchers in front of the lines of one message."""

import pytest

from busbw.parsers.logs import tags
from busbw.parsers.logs.scan import Pattern, Scanner

TAGS = {
    "Open MPI 4": "[1,3]<stdout>:",
    "Open MPI 5": "[prterun-gpu1-41@1,3]<stderr>: ",
    "Open MPI with the time": "Mon Nov 23 10:12:09 2026[1,3]<stdout>:",
    "torchrun": "[rank3]: ",
    "torchrun, redirected": "[default3]:",
    "srun --label": " 3: ",
    "hydra -l": "[3] ",
    "kubectl --prefix": "[pod/nccl-worker-0/main] ",
    "docker compose": "worker-1  | ",
}
FIRST = "gpu1:41:42 [0] NCCL WARN Call to ibv_modify_qp failed with error"
SECOND = "Connection timed out errno 110"


@pytest.mark.parametrize("tag", TAGS.values(), ids=TAGS.keys())
def test_a_wrapped_warning_is_joined_without_the_tag_of_its_second_line(tag: str) -> None:
    scanner = Scanner((Pattern("timeout", "failed with error Connection timed out"),))
    found = scanner.scan([f"{tag}{FIRST}\n{tag}{SECOND}\n".encode()])
    assert [line.text for hit in found.hits for line in hit.examples] == [f"{tag}{FIRST} {SECOND}"]


@pytest.mark.parametrize("tag", TAGS.values(), ids=TAGS.keys())
def test_text_and_bytes_lose_the_same_tag(tag: str) -> None:
    line = f"{tag}ORTE was unable to start"
    form = tags.form_of(line)
    assert form is not None
    assert form == tags.form_of_bytes(line.encode())
    assert tags.untagged(line, form) == "ORTE was unable to start"
    assert tags.untagged_bytes(line.encode(), form) == b"ORTE was unable to start"


@pytest.mark.parametrize("line", ["3: no device", "[3] no device", "note | no device"])
def test_what_could_be_text_is_taken_only_where_the_first_line_has_it(line: str) -> None:
    assert tags.untagged(line, None) == line
    assert tags.untagged(line, "open-mpi") == line
