"""The table of causes: every row is reached, words and signals rank as they should."""

from __future__ import annotations

import functools
import itertools
import random
import signal
import string
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, strategies as st
from tests.kit.last_words import OMP, RECURSES, TRACE, WAITS_FOR_ANSWER, WAITS_FOR_LOCK, WORDS
from tests.kit.widely import CHAOS

from ttf.incidents.classes import CLASSES
from ttf.incidents.classify import classify, first_match, matches
from ttf.incidents.death import (
    UNNAMED,
    Backtrace,
    Death,
    FileChange,
    Finding,
    NativeFrame,
    ProcessorTime,
)
from ttf.incidents.facts import DeathFacts, last_words
from ttf.incidents.notes import NOTES
from ttf.incidents.remedies import RECIPES
from ttf.incidents.rules import RULES
from ttf.machine.memory.tree import MemoryPoint
from ttf.process.activity import FOR_INPUT, IN_THE_KERNEL
from ttf.rundir.flight_record import Flight, Phase

DOCS = Path(__file__).parents[3] / "docs/incidents.md"
CONTRACT = """
    omp-duplicate segfault abort heap-corruption cxx-exception bus-error illegal-instruction
    oom-kill memory-limit alloc-failure hang killed cpu-limit vanished disk-full data-changed
    non-finite python-error device-lost rendezvous-failed peer-lost network-partition store-lost
    wrong-interface clock-skew ranks-disagree straggler unknown
""".split()  # noqa: SIM905 - as a sentence it is read against the contract

SIGNALS = (None, *sorted(int(s) for s in signal.Signals if s < 32))
PARTS = 7
EXITS = (0, 1, 3, 120, 121, 122, 124, 127)
CUT = FileChange(path="pairs.npz", was="40,960 bytes", now="4,096 bytes", cut=True)
MADE_ANEW = FileChange(path="bank.npz", was="40,960 bytes", now="another file: 40,960 bytes")
NEARLY_USED_UP = ProcessorTime(used_s=59.8, at_most_s=60.1, soft_s=60.0, hard_s=60.0)
LITTLE: Final = MemoryPoint(time=1, step=1, anon=1, shared=0, file=0, limit=100)
SURROUNDINGS: tuple[dict[str, Any], ...] = (
    {},
    {"finished": True},
    {"oom_source": "cgroup /job (memory.events)"},
    {"oom_source": "cgroup /job (memory.events)", "oom_kills": 1},
    {"oom_source": "/proc/vmstat (oom_kill)", "oom_kills": 1},
    {"kernel": "Memory cgroup out of memory: Killed process 4242 (python)"},
    {"changed_files": (CUT, MADE_ANEW)},
    {"changed_files": (MADE_ANEW,)},
    {"free_disk": {"/dev/shm": 0}},
    {"openmp": ("a/libomp.so", "b/libiomp5.so")},
    {"uncaught": "OutOfMemoryError"},
    {"uncaught": "KeyError"},
    {"processor": NEARLY_USED_UP},
    {"killed_by_us": "hang", "reason": f"no sign of life for 60 s; {IN_THE_KERNEL}"},
    {"killed_by_us": "hang", "reason": "no sign of life for 60 s", "faulthandler": WAITS_FOR_LOCK},
    {"killed_by_us": "hang", "reason": f"no output for 60 s; {FOR_INPUT}"},
    {"oom_source": "cgroup /job (memory.events)", "oom_kills": 1, "memory": (LITTLE,)},
    {"killed_by_us": "memory", "reason": "7.7 GB of 8.0 GB"},
    {"killed_by_us": "stop", "reason": "a second signal"},
    {"killed_by_us": "garbage", "reason": "no checksum"},
    {"killed_by_us": "straggler", "reason": "the others waited 60 s for it in vain"},
    *({"others": how, "reason": "of host-b (node 1)"} for how in ("silent", "gone")),
    *(
        {"process": "command", "faulthandler": f"Fatal Python error: {name}\n"}
        for name in ("Segmentation fault", "Aborted", "Bus error", "Illegal instruction")
    ),
    *({"process": "command"} | more for more in ({}, {"finished": True}, {"killed_by_us": "hang"})),
    {"process": "command", "killed_by_us": "memory", "reason": "1.7 GB of 1.2 GB"},
    *(
        {"error": {"class": c, "message": "It is so.", "exit_code": e, "known": c == "ConfigError"}}
        for c, e in (
            ("DataChanged", 3),
            ("NumericFailure", 4),
            ("DeviceMistrusted", 4),
            ("ConfigError", 2),
            ("RanksDisagree", 2),
            ("RanksDrifted", 4),
            ("PeerLost", 5),
        )
    ),
    *(
        {"error": {"class": "PeerLost", "message": message, "exit_code": 5, "known": True}}
        for message in (
            "Unable to find address for: eth7",
            "1/2 clients joined.",
            "failed to recv, got 0 bytes",
        )
    ),
)


def a_death(**more: Any) -> Death:
    values: dict[str, Any] = {"process": "trainer", "pid": 4242, "time": 1e9}
    return Death(**values | more)


def deaths() -> Iterator[Death]:
    endings = [(signum, None) for signum in SIGNALS if signum] + [(None, code) for code in EXITS]
    for (signum, code), text, around in itertools.product(endings, WORDS.values(), SURROUNDINGS):
        yield a_death(signal=signum, exit_code=code, stderr=text, **around)


@functools.cache
def in_parts() -> tuple[list[Death], ...]:
    """Every seventh, and so on: no number of endings, words or surroundings is a multiple of seven, so
    that each part has every two of them together."""
    every = list(deaths())
    return tuple(every[part::PARTS] for part in range(PARTS))


@functools.cache
def in_any_order() -> list[Death]:
    """What is rare comes soon."""
    every = list(itertools.chain(*in_parts()))
    return random.Random(0).sample(every, len(every))


@functools.cache
def classified() -> list[tuple[Death, Finding]]:
    """Each with what it is classified as: the tests below ask it of one part, a campaign of all."""
    parts = in_parts() if CHAOS else in_parts()[:1]
    return [(death, classify(death)) for death in itertools.chain(*parts)]


def test_every_part_has_every_two_together() -> None:
    endings = sum(map(len, in_parts())) // len(WORDS) // len(SURROUNDINGS)
    numbers = (endings, len(WORDS), len(SURROUNDINGS))
    assert all(number % PARTS for number in numbers)


def name_of(words: str, signum: int | None, code: int | None = None, **more: Any) -> str:
    return classify(a_death(signal=signum, exit_code=code, stderr=WORDS[words], **more)).name


# --- the table as a whole ----------------------------------------------------------------------


def test_every_row_is_reached_and_every_class_of_the_contract_has_one() -> None:
    unreached = {id(rule): rule for rule in RULES}
    for death in in_any_order():
        unreached.pop(id(first_match(DeathFacts(death))[0]), None)
        if not unreached:
            break
    assert not unreached
    assert {rule.name for rule in RULES} == set(CONTRACT)


def test_every_note_is_said_somewhere() -> None:
    around: list[dict[str, Any]] = [
        {},
        {"memory": (MemoryPoint(time=1, step=1, anon=1, shared=0, file=0, limit=100),)},
        {"memory": (MemoryPoint(time=1, step=1, anon=99, shared=0, file=0, limit=100),)},
        {"openmp": ("a/libomp.so", "b/libomp.so")},
        {"changed_files": (MADE_ANEW,)},
        {"exit_code": 139},
        {"hidden": True},
        {
            "faulthandler": 'Thread 0x1 (most recent call first):\n  File "a/threading.py", line 5 in '
            "wait\n"
        },
        {"faulthandler": WAITS_FOR_ANSWER},
        {
            "faulthandler": 'Thread 0x1 (most recent call first):\n  File "multiprocessing/'
            'popen_fork.py", line 27 in poll\n'
        },
        {"newer_code": ("/site/layers.py",)},
        {"faulthandler": RECURSES},
    ]
    unsaid = list(NOTES)
    for death, more in itertools.product(in_any_order(), around):
        if not unsaid:
            break
        case = DeathFacts(replace(death, **more))
        due = [n for n in unsaid if matches(n.when, case)]
        if due:  # The class takes longer.
            name = first_match(case)[0].name
            unsaid = [n for n in unsaid if n not in due or name not in n.names]
    assert not [note.text for note in unsaid]


def test_explanations_name_only_what_is_known() -> None:
    """No placeholder without a value, no loose ends where a value is empty."""
    for death, finding in classified():
        text = finding.explanation
        assert "{" not in text.replace(death.stderr, "") and "  " not in text
        assert " ." not in text and " ," not in text and ".." not in text, text


@given(
    text=st.text(alphabet=string.printable + "\x00\u2028\ufffd", max_size=400),
    signum=st.sampled_from((*SIGNALS, 64, 77)),
    code=st.integers(0, 255),
    dump=st.text(max_size=100),
    place=st.integers(0, 400),
)
def test_whatever_was_written_there_is_an_answer(
    text: str, signum: int | None, code: int, dump: str, place: int
) -> None:
    death = a_death(
        signal=signum,
        exit_code=None if signum else code,
        stderr=text[:place] + OMP[place % 9 :] + text[place:],
        faulthandler=f"Fatal Python error: {dump}",
        kernel=text,
    )
    found = classify(death)
    assert found.name in CLASSES and found.evidence
    if found.name == "oom-kill":
        assert "Killed process" in text or "oom-kill:" in text


def test_oom_is_never_claimed_without_a_counter_or_the_kernels_word() -> None:
    for death, finding in classified():
        if finding.name == "oom-kill":
            assert death.oom_kills or "Killed process" in death.kernel
        if death.oom_kills and death.signal == 9 and not death.killed_by_us and not death.error:
            assert finding.name == "oom-kill"


def test_what_we_did_ourselves_is_never_somebody_elses_fault() -> None:
    named = {"hang": "hang", "straggler": "straggler", "memory": "memory-limit"}
    named |= {"stop": "killed", "garbage": "unknown"}
    for death, finding in classified():
        if death.killed_by_us:
            assert finding.name == named[death.killed_by_us]


def test_a_command_is_ended_at_its_limit_and_a_trainer_before_it() -> None:
    for process, said in (("command", "exceeded its"), ("trainer", "almost reached its")):
        death = a_death(
            process=process, signal=15, killed_by_us="memory", reason="1.7 GB of 1.2 GB"
        )
        assert f"{said} memory limit: 1.7 GB of 1.2 GB" in classify(death).explanation


# --- words and signals ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "signum", "name"),
    [
        ("omp", 6, "omp-duplicate"),
        ("omp", None, "omp-duplicate"),
        ("omp", 9, "killed"),
        ("omp", 11, "segfault"),
        ("openblas", None, "alloc-failure"),
        ("openblas", 11, "alloc-failure"),
        ("MemoryError", None, "alloc-failure"),
        ("MemoryError", 9, "killed"),
        ("rank", None, "alloc-failure"),
        ("bad_alloc", 6, "alloc-failure"),
        ("bad_alloc long ago", 6, "alloc-failure"),
        ("torch", None, "alloc-failure"),
        ("onednn", None, "alloc-failure"),
        ("no such kernel", None, "python-error"),
        ("gpu memory", None, "alloc-failure"),
        ("mac memory", None, "alloc-failure"),
        ("disk", None, "disk-full"),
        ("quota", None, "disk-full"),
        ("short write", None, "python-error"),
        ("gpu", None, "device-lost"),
        ("metal", 6, "device-lost"),
        ("hang of a gpu", 6, "device-lost"),
        ("nan", None, "non-finite"),
        ("shm", signal.SIGBUS, "bus-error"),
        ("heap", 6, "heap-corruption"),
        ("heap of a mac", 6, "heap-corruption"),
        ("heap", 11, "segfault"),
        ("c++", 6, "cxx-exception"),
        ("c++ of a mac", 6, "cxx-exception"),
        ("assertion", 6, "abort"),
        ("worker killed", None, "python-error"),
        ("worker crashed", None, "segfault"),
        ("worker aborted", None, "abort"),
        ("traceback", None, "python-error"),
        ("prose", None, "unknown"),
        ("stack smashed", 6, "heap-corruption"),
        ("stack smashed", 11, "segfault"),
        ("heap of glibc", 6, "heap-corruption"),
        ("heap of Python", 6, "heap-corruption"),
        ("sanitizer", None, "heap-corruption"),
        ("sanitizer", 6, "heap-corruption"),
        ("sanitizer at a bad address", None, "segfault"),
        ("check of glog", 6, "abort"),
        ("gpu too new", None, "python-error"),
        ("nccl", 6, "hang"),
        ("nccl", None, "unknown"),
        ("gloo", None, "hang"),
        ("syntax", None, "python-error"),
        ("libgomp", None, "alloc-failure"),
        ("libgomp", 9, "killed"),
        ("tcmalloc", 6, "heap-corruption"),
        ("rust memory", 6, "alloc-failure"),
        ("memory slots", None, "python-error"),
        ("policy", None, "non-finite"),
        ("svd", None, "non-finite"),
        ("port in use", None, "rendezvous-failed"),
        ("peer missing", None, "rendezvous-failed"),
        ("peer missing", 11, "segfault"),
        ("peer gone", None, "peer-lost"),
        ("store gone", None, "store-lost"),
        ("no interface", None, "wrong-interface"),
        ("clock", None, "clock-skew"),
        ("slurm", 15, "killed"),
        ("slurm", None, "killed"),
        ("slurm", 11, "segfault"),
    ],
)
def test_what_a_process_wrote_decides_where_its_end_allows_it(
    words: str, signum: int | None, name: str
) -> None:
    assert name_of(words, signum, None if signum else 1) == name


@pytest.mark.parametrize(
    ("words", "signum", "code", "said"),
    [
        ("stack smashed", 6, None, "beyond the end of a buffer"),
        ("heap of Python", 6, None, "bad trailing pad byte."),
        ("sanitizer", None, 1, "heap-use-after-free on address"),
        (
            "c++",
            6,
            None,
            "of type faiss::FaissException and did not catch it, which ends the process: no.",
        ),
        ("thread of c++", 6, None, "without an exception"),
        ("check of glog", 6, None, "Check failed: rows_ > 0 (0 vs. 0)."),
        ("panic", 6, None, "panicked at src/lib.rs:8:14: index out of bounds."),
        ("prose", 6, None, "possibly the reason: epoch 3, loss 2.1."),
        ("nothing", 6, None, "wrote no reason"),
        ("prose", None, 3, "possibly the reason: epoch 3, loss 2.1."),
        ("nothing", None, 3, "without an error message"),
        ("no codec", None, 1, "PYTHONHOME"),
        ("linker", None, 127, "engine.so: undefined symbol: of_a_newer_version."),
        ("syntax", None, 1, "SyntaxError: invalid syntax."),
        ("libgomp", None, 1, "ulimit -u"),
        ("peer missing", None, 1, "1/2 clients joined."),
        ("peer gone", None, 1, "Connection closed by peer [127.0.0.1]:34567"),
        ("not writable", 11, None, "warned of an array that is not writable"),
        ("nothing", 11, None, "a recursion used up the stack"),
    ],
)
def test_the_reason_that_a_process_wrote_is_told(
    words: str, signum: int | None, code: int | None, said: str
) -> None:
    found = classify(a_death(signal=signum, exit_code=code, stderr=WORDS[words]))
    assert said in found.explanation
    assert not found.certain


def test_the_line_that_names_the_exception_is_told_not_the_end_of_its_message() -> None:
    stderr = f"{TRACE}RuntimeError: the bank has other rows\nSee the page about banks.\n\nbye\n"
    assert "did not catch it: RuntimeError: the bank has other rows." in (
        classify(a_death(exit_code=1, stderr=stderr, uncaught="RuntimeError")).explanation
    )
    listed = f"{TRACE}RuntimeError: Errors in loading the model:\n\tMissing key: weight\n\tbias"
    assert "Errors in loading the model: Missing key: weight." in (
        classify(a_death(exit_code=1, stderr=listed)).explanation
    )


def test_a_device_without_memory_is_not_said_to_be_the_kernels_doing() -> None:
    """The memory of a GPU is not the machine's."""
    device = classify(a_death(exit_code=1, stderr=WORDS["gpu memory"])).explanation
    machine = classify(a_death(exit_code=1, stderr=WORDS["torch"])).explanation
    assert "memory of the device (GPU)" in device and "the kernel refused nothing" in device
    assert "refused the request for memory" in machine and "GPU" not in machine


def test_many_frames_of_one_function_are_a_recursion_and_few_are_not() -> None:
    deep = "probably a recursion used it up"
    assert deep in classify(a_death(signal=11, faulthandler=RECURSES)).explanation
    few = RECURSES.replace("  ...\n", "")
    assert deep not in classify(a_death(signal=11, faulthandler=few)).explanation
    other = f"{few}\nThread 0x2 (most recent call first):\n  ...\n"
    assert deep not in classify(a_death(signal=11, faulthandler=other)).explanation
    for names, is_deep in ((("walk",) * 8, True), (("walk",) * 7, False), ((UNNAMED,) * 8, False)):
        frames = tuple(NativeFrame(function=name, library="") for name in names)
        found = classify(a_death(signal=11, backtrace=Backtrace(frames=frames)))
        assert (deep in found.explanation) == is_deep


def test_of_several_errors_at_once_the_group_is_told() -> None:
    stderr = (
        '  + Exception Group Traceback (most recent call last):\n  |   File "t.py", line 1, in fit\n'
        "  |     raise group\n  | ExceptionGroup: two shards failed (2 sub-exceptions)\n"
        "  +-+---------------- 1 ----------------\n    | ValueError: shard 3\n"
        "    +------------------------------------\n"
    )
    found = classify(a_death(exit_code=1, stderr=stderr, uncaught="ExceptionGroup"))
    assert (found.name, found.certain) == ("python-error", True)
    assert "ExceptionGroup: two shards failed (2 sub-exceptions)." in found.explanation


def test_what_a_command_said_before_it_chose_its_exit_code_is_told() -> None:
    said = "python: can't open file 'train_v2.py': [Errno 2] No such file or directory"
    found = classify(a_death(process="command", exit_code=2, stderr=said, finished=True))
    assert found.name == "unknown" and said in found.explanation
    silent = classify(a_death(process="command", exit_code=2, finished=True))
    assert "documentation" in silent.explanation


def test_only_the_program_timeout_and_a_closed_pipe_have_codes_of_their_own() -> None:
    """Of a command: Python that chose 124 itself was not killed, and it says so."""
    assert name_of("prose", None, 124, process="command") == "killed"
    assert name_of("prose", None, 124, process="command", finished=True) == "unknown"
    assert name_of("prose", None, 124) == "unknown"
    assert name_of("no reader", None, 120, process="command", finished=True) == "killed"
    assert name_of("prose", None, 120, process="command", finished=True) == "unknown"


def test_a_disk_without_inodes_is_full_whatever_space_it_has() -> None:
    around: dict[str, Any] = {"free_disk": {"runs": 1 << 30}, "no_inodes": ("runs",)}
    found = classify(a_death(exit_code=1, stderr=WORDS["disk"], **around))
    assert (found.name, found.certain) == ("disk-full", True)
    assert "runs: all inodes are in use" in found.explanation


def test_a_crash_in_a_thread_of_a_library_is_not_blamed_on_a_python_line() -> None:
    dump = '{}\n\n{} 0x{} (most recent call first):\n  File "t.py", line 5 in fit\n'
    head = "Fatal Python error: Segmentation fault"
    foreign = a_death(signal=11, faulthandler=dump.format(head, "Thread", 1))
    assert DeathFacts(foreign).top_frame == ""
    assert "ran no Python code" in classify(foreign).explanation
    own = a_death(signal=11, faulthandler=dump.format(head, "Current thread", 1))
    assert DeathFacts(own).top_frame == "t.py:5 in fit"
    assert "ran no Python code" not in classify(own).explanation
    hang = a_death(signal=9, killed_by_us="hang", faulthandler=dump.format("", "Thread", 1))
    assert DeathFacts(hang).top_frame == "t.py:5 in fit"


def test_a_short_write_counts_as_a_full_disk_only_where_the_disk_is_full() -> None:
    assert name_of("short write", None, 1, free_disk={"runs/1": 0}) == "disk-full"
    assert name_of("short write", None, 1, free_disk={"runs/1": 1 << 30}) == "python-error"


def test_a_killed_worker_is_oom_only_with_a_counter() -> None:
    source = "cgroup /job (memory.events)"
    assert name_of("worker killed", None, 1, oom_source=source, oom_kills=1) == "oom-kill"
    assert name_of("worker killed", None, 1, oom_source=source) == "python-error"


def test_only_rows_that_name_their_cause_are_certain_of_a_remedy() -> None:
    """Restarted unchanged but for these: a cause that an edit removes, named by the evidence."""
    sure = {rule.name for rule in RULES if rule.certain and rule.name in RECIPES}
    assert sure == {"omp-duplicate", "oom-kill", "alloc-failure", "memory-limit", "bus-error"}
    cut = [rule for rule in RULES if rule.certain and rule.name == "bus-error"]
    assert all(rule.ends_with is not None for rule in cut), "a cut input ends the run instead"


def test_code_that_handles_an_error_is_not_that_error() -> None:
    stderr = (
        'Traceback (most recent call last):\n  File "t.py", line 3, in fit\n'
        '    if "CUDA out of memory" in str(error): shrink()\nKeyError: 1\n'
    )
    assert classify(a_death(exit_code=1, stderr=stderr)).name == "python-error"


def test_evidence_names_the_line_of_stderr() -> None:
    stderr = f"starting\nepoch 1 50%|###\r100%|######\n{OMP}\ncore dumped"
    found = classify(a_death(signal=6, stderr=stderr))
    assert found.evidence[1].source == "stderr:3"
    assert found.evidence[1].text.startswith("OMP: Error #15")


def test_a_fault_while_the_stacks_were_written_does_not_hide_the_first() -> None:
    dump = "Fatal Python error: Bus error\n\nCurrent thread 0x1 (most recent call first):\n"
    twice = f"{dump}  File Fatal Python error: Segmentation fault\n"
    changed = (FileChange(path="pairs.npz", was="9 bytes", now="1 byte", cut=True),)
    death = a_death(signal=signal.SIGSEGV, faulthandler=twice, changed_files=changed)
    found = classify(death)
    assert found.name == "bus-error" and found.certain
    assert found.evidence[0].text.endswith("SIGSEGV (11)")
    assert classify(replace(death, faulthandler="")).name == "segfault"


def test_last_words_are_the_last_chain_of_tracebacks() -> None:
    first = f"{TRACE}ValueError: old\n"
    between = "\nThe above exception was the direct cause of the following exception:\n\n"
    start, words = last_words(f"{first}log\n{first}{between}{TRACE}KeyError: 1\n")
    assert start == 6
    assert words.count("ValueError") == 1 and words.endswith("KeyError: 1")
    assert last_words("") == (1, "")


def test_the_explanation_says_where_it_was() -> None:
    flight = Flight(
        step=117,
        micro_batch=0,
        phase=Phase.MINING.name.lower(),
        monotonic_s=1.0,
        time=1e9 - 3,
        saving_since_s=None,
        torn=True,
    )
    found = classify(a_death(signal=11, flight=flight))
    assert "in mining, after step 117" in found.explanation
    texts = {evidence.source: evidence.text for evidence in found.evidence}
    assert "3.0 s before the end, not written completely" in texts["flight recorder"]


# --- what proves a cause -------------------------------------------------------------------------


def test_words_alone_prove_nothing() -> None:
    """Only measured facts and the reports of the interpreter and of `ttf` make a cause certain."""
    for words in WORDS:
        for signum, code in ((None, 1), (6, None), (None, 134)):
            found = classify(a_death(signal=signum, exit_code=code, stderr=WORDS[words]))
            assert not found.certain, words


def test_a_remedy_of_memory_or_of_two_runtimes_does_not_wait_for_certainty() -> None:
    for words, signum in (("omp", 6), ("openblas", None), ("torch", None), ("bad_alloc", 6)):
        found = classify(
            a_death(signal=signum, exit_code=None if signum else 1, stderr=WORDS[words])
        )
        assert found.at_once and not found.certain
    assert not classify(a_death(signal=11)).at_once


@pytest.mark.parametrize(
    ("words", "more", "certain"),
    [
        ("omp", {"openmp": ("a/libomp.so", "b/libiomp5.so")}, True),
        ("gpu memory", {"uncaught": "OutOfMemoryError"}, True),
        ("MemoryError", {"uncaught": "MemoryError"}, False),
        ("disk", {"free_disk": {"runs": 0}}, True),
        ("disk", {"uncaught": "OSError"}, False),
        ("traceback", {"uncaught": "KeyError"}, True),
        ("traceback", {"error": {"class": "KeyError", "message": "'rows'"}}, True),
        ("traceback", {}, False),
    ],
)
def test_a_fact_beside_the_words_does(words: str, more: dict[str, Any], certain: bool) -> None:
    signum = 6 if words == "omp" else None
    death = a_death(signal=signum, exit_code=None if signum else 1, stderr=WORDS[words], **more)
    assert classify(death).certain is certain


def test_a_program_that_ends_with_the_code_of_a_signal_was_perhaps_not_killed() -> None:
    for code in (130, 137, 143, 152, 153):
        found = classify(a_death(process="command", signal=code - 128, exit_code=code))
        assert not found.certain


def test_an_interrupt_is_certain_only_if_a_signal_came() -> None:
    alone = classify(a_death(process="command", signal=2, stderr="KeyboardInterrupt"))
    assert (alone.name, alone.certain) == ("killed", False)
    assert "its own code raised KeyboardInterrupt" in alone.explanation
    passed_on = classify(
        a_death(
            process="command",
            signal=2,
            killed_by_us="stop",
            reason="SIGINT was sent to ttf guard, which passed it on",
        )
    )
    assert (passed_on.name, passed_on.certain) == ("killed", True)


def test_a_sigkill_near_the_limit_of_processor_time_is_that_limit() -> None:
    used = NEARLY_USED_UP
    assert name_of("nothing", 9, processor=used) == "cpu-limit"
    assert name_of("nothing", 9, processor=replace(used, at_most_s=30.0)) == "killed"
    assert name_of("nothing", 9, processor=replace(used, hard_s=float("inf"))) == "killed"
    assert name_of("nothing", 9, processor=used, oom_source="x", oom_kills=1) == "oom-kill"
    soft = classify(a_death(signal=signal.SIGXCPU, processor=replace(used, hard_s=90.0)))
    assert (soft.name, soft.certain) == ("cpu-limit", True)
    assert "59.8 s at the last measurement; the limit (ulimit -t) is 60 s and 90 s" in [
        evidence.text for evidence in soft.evidence
    ]
    sent = classify(a_death(signal=signal.SIGXCPU))
    assert (sent.name, sent.certain) == ("cpu-limit", False)
