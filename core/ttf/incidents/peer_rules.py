"""The rules for processes that depend on others of the same training. `rules.py` sets their position."""

from __future__ import annotations

from typing import Final

from ttf.errors import ExitCode
from ttf.incidents import error_texts
from ttf.incidents.rule import EXIT, Rule, When

_WRONG_INTERFACE: Final = (
    "{who} could not use the network interface that it was told to use: {why} The interface has another "
    "name on this machine, or no address."
)
_NO_RENDEZVOUS: Final = (
    "The processes of a training on several processes did not find each other: {why} Usually a "
    "process did not start or has another address or port, or an older training still uses the "
    "port."
)
_STORE_LOST: Final = (
    "{who} lost the store of the training, a small server in the process with rank 0 or in its "
    "launcher: {why} Look for the cause there: that process or its machine has ended, or cannot be "
    "reached."
)

# Of trainers of ttf: their supervisors know more than the text says.
PEERS_OF_A_RUN: Final[tuple[Rule, ...]] = (
    Rule(
        "network-partition",
        When(facts=("others-silent",)),
        "{reason}, and no trainer here ended by itself. The network between the machines is cut, or the "
        "other machine stands still or has lost its power. ttf starts the next attempt when all "
        "machines of the run can talk to each other again.",
    ),
    Rule(
        "peer-lost",
        When(facts=("others-gone",)),
        "{reason}, and no trainer here ended by itself. Nobody is left there who could say why: look at "
        "that machine. ttf starts the next attempt when the machine is there again.",
    ),
    Rule(
        "straggler",
        When(killed_by_us=("straggler",)),
        "{who} was much later than the other ranks: {reason}. It was not stuck: it gave signs of life. ttf "
        "saved its stacks and then ended it.",
    ),
    Rule(
        "ranks-disagree",
        When(errors=("RanksDisagree",)),
        "The ranks would not train the same run: {error}",
        certain=True,
        ends_with=ExitCode.USAGE,
    ),
    Rule(
        "ranks-disagree",
        When(errors=("RanksDrifted",)),
        "The ranks computed different numbers, although they should be bitwise equal: {error} Usually "
        "the memory or the processor of one machine is faulty.",
        certain=True,
    ),
    Rule(
        "wrong-interface",
        When(errors=("PeerLost",), text=error_texts.WRONG_INTERFACE),
        _WRONG_INTERFACE,
        ends_with=ExitCode.USAGE,
    ),
    Rule(
        "rendezvous-failed",
        When(errors=("PeerLost",), text=error_texts.NO_RENDEZVOUS),
        _NO_RENDEZVOUS,
    ),
    Rule(
        "store-lost",
        When(errors=("PeerLost",), text=error_texts.STORE_LOST),
        _STORE_LOST,
    ),
    Rule(
        "peer-lost",
        When(errors=("PeerLost",)),
        "{who} lost the others {at}: {error} This is a consequence: the cause is in another process of the "
        "run.",
    ),
)

PEERS_OF_OTHERS: Final[tuple[Rule, ...]] = (
    Rule(
        "wrong-interface",
        When(text=error_texts.WRONG_INTERFACE, signals=(EXIT,), facts=("failed", "traceback")),
        _WRONG_INTERFACE,
    ),
    Rule(
        "rendezvous-failed",
        When(
            text=error_texts.NO_ADDRESS,
            areas=("stderr",),
            signals=(EXIT,),
            facts=("failed", "traceback"),
        ),
        "The processes of a training on several processes did not find each other. Before the timeout, "
        "torch could not look up the name {name}: {why}",
        advice=(
            "Check the name (MASTER_ADDR, --rdzv-endpoint) on this machine: getent hosts NAME.",
            "If the name is right, check that the process with rank 0 runs, and that its port can be reached.",
        ),
    ),
    Rule(
        "rendezvous-failed",
        When(text=error_texts.NO_RENDEZVOUS, signals=(EXIT,), facts=("failed", "traceback")),
        _NO_RENDEZVOUS,
    ),
    Rule(
        "peer-lost",
        When(text=error_texts.PEER_LOST, signals=(EXIT,), facts=("failed", "traceback")),
        "Another process of the same training ended or lost its connection: {why} Look for the cause in "
        "the output of that process.",
    ),
    Rule(
        "store-lost",
        When(text=error_texts.STORE_LOST, signals=(EXIT,), facts=("failed", "traceback")),
        _STORE_LOST,
    ),
    Rule(
        "clock-skew",
        When(text=error_texts.CLOCK_SKEW, signals=(EXIT,), facts=("failed", "traceback")),
        "The clock of this machine differs too much from that of another one, which refused {who_object}: "
        "{why}",
    ),
)
