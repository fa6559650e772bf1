"""say_slurm_request: the machine that options of Slurm ask for, and the variables Slurm will set.

Source: doc/man/man1/sbatch.1 and src/common/{proc_args,slurm_opt}.c of Slurm at 284c3b95 (2026-08).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from vramgate.catalog.accelerator_answers import ResolvedAccelerator
from vramgate.catalog.accelerators import builtin_accelerators
from vramgate.errors import UnknownNameError
from vramgate.launch.launch import Context
from vramgate.launch.reading import Found, Misread, Reading, Unseen
from vramgate.launch.words import Word

_COUNT = re.compile(r"([0-9]{1,9})([kKmM]?)")
_SCALE = {"": 1, "k": 1024, "m": 1024 * 1024}
_GRES = re.compile(r"(?:gres[/:])?(?P<name>[A-Za-z_]+)(?:[:=/](?P<rest>.*))?")
_SOCKETS = re.compile(r"\(.*\)\Z")
_PLAIN_FEATURE = re.compile(r"[\w.-]+")
_TYPE_HINT = "say hardware.accelerator, or ask for --gres=gpu:TYPE:N"
_SHARES = {"shard": "a share of a GPU", "mps": "a share of a GPU under MPS"}
_MOST_DEVICES = 1_000_000

_COPIED = {
    "ntasks-per-node": "SLURM_NTASKS_PER_NODE",
    "cpus-per-task": "SLURM_CPUS_PER_TASK",
    "cpus-per-gpu": "SLURM_CPUS_PER_GPU",
    "gpus": "SLURM_GPUS",
    "gpus-per-node": "SLURM_GPUS_PER_NODE",
    "gpus-per-socket": "SLURM_GPUS_PER_SOCKET",
    "gpus-per-task": "SLURM_GPUS_PER_TASK",
    "ntasks-per-gpu": "SLURM_NTASKS_PER_GPU",
    "partition": "SLURM_JOB_PARTITION",
    "job-name": "SLURM_JOB_NAME",
}
"""Options whose value a variable holds as it was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ask:
    """GPUs asked for by one option."""

    count: int
    type: str
    """Empty where none is named."""
    word: Word


def say_slurm_request(options: Mapping[str, Word], context: Context) -> Mapping[str, Word]:
    """Say the machine that options ask for, and return the ``SLURM_*`` variables that they set.

    Options are by Slurm's long names, as ``slurm_words`` gives them.
    """
    request = _Request(options, context)
    request.say()
    return request.variables()


class _Request:
    """One ask: nodes, tasks and GPUs, as far as they are said."""

    def __init__(self, options: Mapping[str, Word], context: Context) -> None:
        self._options = options
        self._draft = context.draft
        self._total = self._asked("gpus")
        self._per_task = self._asked("gpus-per-task")
        self._per_node = self._asked("gpus-per-node") or self._of_gres()
        self._per_socket = self._asked("gpus-per-socket")
        self._nodes = self._node_count()
        self._tasks = self._task_count()

    @property
    def _asks(self) -> list[_Ask]:
        every = (self._per_node, self._total, self._per_task, self._per_socket)
        return [ask for ask in every if ask is not None]

    # ------------------------------------------------------------ what is asked

    def _count(self, name: str) -> Found[int] | None:
        word = self._options.get(name)
        if word is None or not word.is_known:
            return None
        match = _COUNT.fullmatch(word.text)
        if match is None:
            self._draft.misread(None, Misread(word.source, word.text, "a whole number"))
            return None
        return Found(int(match[1]) * _SCALE[match[2].lower()], word.source)

    def _node_count(self) -> Found[int] | None:
        """Return the nodes; None where they are not said, or a range."""
        word = self._options.get("nodes")
        tasks, per_node = self._count("ntasks"), self._count("ntasks-per-node")
        if word is not None:
            least, dash, most = word.text.partition("-")
            if dash and least != most:
                return None
            if dash:
                return Found(int(least), word.source) if least.isdecimal() else None
            return None if "," in word.text or ":" in word.text else self._count("nodes")
        if self._total and self._per_node and self._per_node.count:
            nodes, rest = divmod(self._total.count, self._per_node.count)
            return None if rest else Found(nodes, self._total.word.source)
        if tasks is not None:
            if per_node is not None and per_node.value:
                return Found(-(-tasks.value // per_node.value), tasks.source)
            return Found(1, tasks.source) if tasks.value == 1 else None
        if self._total is not None and not per_node:
            return Found(1, self._total.word.source) if self._total.count == 1 else None
        place = self._asks[0].word.source if self._asks else ""
        return Found(1, place) if place else None

    def _task_count(self) -> Found[int] | None:
        tasks, per_node = self._count("ntasks"), self._count("ntasks-per-node")
        if tasks is not None:
            return tasks
        if per_node is not None and self._nodes is not None:
            return Found(per_node.value * self._nodes.value, per_node.source)
        per_gpu = self._count("ntasks-per-gpu")
        if per_gpu is not None and self._total is not None:
            return Found(per_gpu.value * self._total.count, per_gpu.source)
        return None

    def _asked(self, name: str) -> _Ask | None:
        word = self._options.get(name)
        if word is None or not word.is_known:
            return None
        asks = [self._ask(one, word) for one in word.text.split(",") if one.strip()]
        return self._summed([ask for ask in asks if ask is not None])

    def _ask(self, text: str, word: Word) -> _Ask | None:
        """Return what ``4``, ``a100:4`` or ``a100`` asks for."""
        parts = _SOCKETS.sub("", text.strip()).replace("=", ":").split(":")
        count = _COUNT.fullmatch(parts[-1])
        kind = ":".join(parts[:-1] if count is not None else parts)
        number = int(count[1]) * _SCALE[count[2].lower()] if count is not None else 1
        if number > _MOST_DEVICES:
            self._draft.misread("hardware.devices", Misread(word.source, text, "a count of GPUs"))
            return None
        return _Ask(count=number, type=kind, word=word)

    def _of_gres(self) -> _Ask | None:
        word = self._options.get("gres")
        if word is None or not word.is_known:
            return None
        found: list[_Ask] = []
        for one in word.text.split(","):
            match = _GRES.fullmatch(one.strip())
            if match is None:
                continue
            name = match["name"].lower()
            ask = self._ask(match["rest"] or "1", word)
            if name == "gpu" and ask is not None:
                found.append(ask)
            elif name in _SHARES:
                self._say_shared(word, name)
        return self._summed(found)

    def _summed(self, asks: list[_Ask]) -> _Ask | None:
        if not asks:
            return None
        kinds = {ask.type for ask in asks}
        if len(kinds) > 1:
            listed = ", ".join(sorted(kind or "any" for kind in kinds))
            self._draft.warn(
                "mixed_accelerators",
                f"{asks[0].word.source} asks for cards of several types ({listed}): the smallest"
                " decides; say hardware.accelerator.",
            )
        kind = asks[0].type if len(kinds) == 1 else ""
        return _Ask(count=sum(ask.count for ask in asks), type=kind, word=asks[0].word)

    # ------------------------------------------------------------ what is said

    def say(self) -> None:
        """Say the machine."""
        partition = self._options.get("partition")
        # Of several partitions Slurm takes the one that starts first.
        if partition is not None and partition.is_known and "," not in partition.text:
            self._draft.place = replace(self._draft.place, queue=partition.text)
        unseen = [self._options[name] for name in _GPU_OPTIONS if name in self._options]
        hidden = [word for word in unseen if not word.is_known]
        if hidden:
            reading = _hidden(hidden[0])
            for field in ("hardware.devices", "hardware.devices_per_node"):
                self._draft.unknown(field, reading)
            self._draft.unknown("hardware.accelerator", reading)
        if not self._asks:
            return
        self._say_accelerator()
        self._draft.say("hardware.devices", self._devices())
        self._draft.say("hardware.devices_per_node", self._devices_per_node())

    def _say_shared(self, word: Word, name: str) -> None:
        self._draft.warn(
            "shared_device",
            f"{word.source} asks for {_SHARES[name]}: others use the card too, and nobody"
            " guarantees its memory to one job.",
        )
        self._draft.unknown(
            "hardware.occupied_bytes",
            Unseen(word.source, "the card is shared with others", "say hardware.occupied_bytes"),
        )

    def _devices(self) -> Reading[int]:
        if self._total is not None:
            return Found(self._total.count, self._total.word.source)
        if self._per_node is not None:
            return self._times(self._per_node, self._nodes, "nodes")
        if self._per_task is not None:
            return self._times(self._per_task, self._tasks, "tasks")
        word = self._asks[0].word
        return Unseen(word.source, "the sockets of a node are not known", "say hardware.devices")

    def _times(self, ask: _Ask, count: Found[int] | None, what: str) -> Reading[int]:
        if count is None:
            return Unseen(
                ask.word.source, f"the number of {what} is not certain", "say hardware.devices"
            )
        return Found(ask.count * count.value, ask.word.source)

    def _devices_per_node(self) -> Reading[int]:
        if self._per_node is not None:
            return Found(self._per_node.count, self._per_node.word.source)
        if not self._asks:
            return None
        devices = self._devices()
        per_node_tasks = self._count("ntasks-per-node")
        if self._per_task is not None and per_node_tasks is not None:
            count = self._per_task.count * per_node_tasks.value
            return Found(count, self._per_task.word.source)
        if isinstance(devices, Found) and self._nodes is not None and self._nodes.value:
            count, rest = divmod(devices.value, self._nodes.value)
            return None if rest else Found(count, devices.source)
        return None

    def _say_accelerator(self) -> None:
        typed = next((ask for ask in self._asks if ask.type), None)
        constraint = self._options.get("constraint")
        feature = _card(constraint) if constraint is not None else None
        if typed is not None:
            card = _resolved(typed.type)
            if card is not None:
                meant = (card.entry, *card.rivals) if card.rivals else ()
                better = feature is not None and feature.entry in meant
                name, word = (
                    (constraint.text, constraint)
                    if better and constraint is not None
                    else (typed.type, typed.word)
                )
                self._draft.say("hardware.accelerator", Found(name, word.source))
                return
        if feature is not None and constraint is not None:
            self._draft.say("hardware.accelerator", Found(constraint.text, constraint.source))
            return
        self._draft.unknown("hardware.accelerator", self._untyped(typed))

    def _untyped(self, typed: _Ask | None) -> Unseen:
        ask = typed or self._asks[0]
        partition = self._options.get("partition")
        where = f"partition {partition.text}" if partition is not None else "the partition"
        constraint = self._options.get("constraint")
        if typed is not None:
            reason = f"{typed.type} names no card of the catalog"
        elif constraint is not None:
            reason = f"no type of card is asked for: {where} and {constraint.text} decide"
        else:
            reason = f"no type of card is asked for: {where} decides"
        return Unseen(ask.word.source, reason, _TYPE_HINT)

    # ------------------------------------------------------------ what Slurm sets

    def variables(self) -> Mapping[str, Word]:
        """Return the variables whose values follow from the options."""
        found = {
            variable: self._options[name]
            for name, variable in _COPIED.items()
            if name in self._options
        }
        if self._nodes is not None:
            for name in ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"):
                found[name] = _number(self._nodes)
        if self._tasks is not None:
            for name in ("SLURM_NTASKS", "SLURM_NPROCS"):
                found[name] = _number(self._tasks)
        per_node = self._devices_per_node()
        if isinstance(per_node, Found):
            found["SLURM_GPUS_ON_NODE"] = _number(per_node)
        return found


_GPU_OPTIONS = ("gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket", "gres")


def _number(found: Found[int]) -> Word:
    return Word(text=str(found.value), source=found.source)


def _hidden(word: Word) -> Unseen:
    name = word.unresolved[0]
    return Unseen(word.source, f"{name} has no value here", f"give {name} in launch.env")


def _card(constraint: Word) -> ResolvedAccelerator | None:
    """Return the card that a feature names; expressions of several are left to the site."""
    if not constraint.is_known or not _PLAIN_FEATURE.fullmatch(constraint.text):
        return None
    return _resolved(constraint.text)


def _resolved(name: str) -> ResolvedAccelerator | None:
    try:
        return builtin_accelerators().resolve(name)
    except UnknownNameError:
        return None
