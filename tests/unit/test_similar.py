"""The text search for failures that no entry knows."""

from collections import Counter

from busbw.fabrics.profiles import families
from busbw.parsers.findings import similar
from busbw.parsers.findings.catalogue import Entry, Weight, load
from busbw.parsers.findings.diagnose import diagnose
from busbw.parsers.findings.evidence import Diagnosis, EvidenceSet, Text
from busbw.parsers.findings.searching import search_patterns
from busbw.parsers.logs import failure_lines
from busbw.parsers.logs.scan import Scanner

EVERY = tuple(families())


def test_an_entry_is_found_by_its_own_examples_with_each_left_out() -> None:
    indexed = dict(similar.index().counts)
    ranks = []
    for entry in load().entries:
        for lines in _examples(entry) if entry.id in indexed else ():
            ranks.append(_rank_without(entry.id, lines, indexed[entry.id]))
    top3 = sum(rank < 3 for rank in ranks) / len(ranks)
    assert len(ranks) > 450
    assert top3 > 0.6


def _examples(entry: Entry) -> list[tuple[str, ...]]:
    """The lines of each signal."""
    chosen = []
    for signal in entry.signals:
        if signal.matches and signal.weight not in (Weight.REQUIRES, Weight.EXCLUDES):
            chosen.append(signal.matches)
    return chosen


def _rank_without(name: str, lines: tuple[str, ...], counts: Counter[str]) -> int:
    """Where the entry stands for the first of its lines, while its words count without them."""
    whole = Counter(counts)
    counts.subtract(similar.words(" ".join(lines)))
    try:
        names = [each for each, _ in similar.search(lines[0], EVERY)]
    finally:
        counts.clear()
        counts.update(whole)
    return names.index(name) if name in names else len(names) + 3


def test_one_word_in_common_is_chance() -> None:
    assert similar.search("NVSwitch") == ()
    assert similar.search("fabric manager: NVSwitch not initialized")[0][0].startswith("fabric")


def test_entries_of_a_provider_are_no_answer_where_it_was_not_seen() -> None:
    line = "EFA security group must allow all traffic to and from itself"
    assert similar.search(line, ("efa",))[0][0] == "efa-security-group"
    assert "efa-security-group" not in dict(similar.search(line))


def answer(text: str) -> Diagnosis:
    hits = Scanner(search_patterns()).scan([text.encode()]).hits
    return diagnose(EvidenceSet((Text("x.log", hits),)))


def test_a_failure_that_no_entry_knows_gives_possible_ones_and_says_how() -> None:
    line = "[ERROR] rank 3: the subnet manager and its partition table gave no answer"
    diagnosis = answer(line)
    assert diagnosis.by_words
    assert {each.confidence.value for each in diagnosis.findings} == {"possible"}
    assert [item.text for item in diagnosis.findings[0].evidence] == [line]
    assert "only share words" in diagnosis.notes[-1]


def test_a_text_of_another_field_is_not_looked_up() -> None:
    other = "[ERROR] the subnet manager and its partition table gave no answer"
    assert [each.id for each in answer(other).findings] == ["unmapped-message"]


def test_a_crash_is_looked_up_by_its_frames() -> None:
    crash = "!! Segfault encountered !!\n  in cuMemCreate\n"
    diagnosis = answer(crash + "  in initOnceFunc\n  in ncclCommInitRank\n")
    assert diagnosis.by_words
    assert diagnosis.findings[0].id == "nccl-segfault"


def test_a_crash_is_named_by_the_function_that_asks_for_memory_of_the_host() -> None:
    crash = "!! Segfault encountered !!\n  in cuMemCreate\n  in ncclCuMemHostEnable()\n"
    diagnosis = answer(crash + "  in initOnceFunc\n  in ncclCommInitRank\n")
    assert diagnosis.findings[0].id == "cumem-host-numa"


def test_a_failed_compilation_is_named() -> None:
    diagnosis = answer("collective.cu(66): error: expected a declaration before shmemPtr\n")
    assert diagnosis.findings[0].id == "compile-failed"


def test_a_message_that_only_passes_an_error_on_does_not_end_the_search() -> None:
    passed_on = (
        "gpu1:41:42 [0] NCCL WARN [Service thread] Could not receive type from localRank 0\n"
    )
    assert not answer(passed_on).by_words
    diagnosis = answer(
        passed_on + "[ERROR] the subnet manager and its partition table gave no answer\n"
    )
    names = [each.id for each in diagnosis.findings]
    assert diagnosis.by_words
    assert names[0] == "secondary-error"
    assert len(names) > 1


def test_an_entry_that_a_failure_amounts_to_exists() -> None:
    names = {each.finding for each in failure_lines.load().writers} - {None}
    assert names
    assert names <= load().by_id.keys()


def test_words_of_the_first_failure_count_more_than_those_near_it() -> None:
    near = ("Error: Inappropriate ioctl for device.",)
    line = "NET/OFI plugin: request completed with error, ioctl"
    alone = dict(similar.search(line, EVERY, most=99))
    both = dict(similar.search(line, EVERY, near=near, most=99))
    whole = dict(similar.search(f"{line} {near[0]}", EVERY, most=99))
    name = "shell-startup-noise"
    assert alone.get(name, 0) < both.get(name, 0) < whole[name]
