"""Launchers say how many processes there are, and give way to the trainer."""

import pytest

from vramgate.launch.draft import Draft
from vramgate.launch.option_words import Syntax, split_options, switches, valued
from vramgate.launch.reading import Found, Unseen
from vramgate.launch.words import Word
from vramgate.launch.world import (
    EveryDevice,
    World,
    say_world,
    visible_devices,
    world_of_environment,
)


def _words(line: str) -> list[Word]:
    return [Word(text=text, source=f"args[{i}]") for i, text in enumerate(line.split())]


def _environment(**values: str) -> dict[str, Word]:
    return {name: Word(text=text, source=f"env {name}") for name, text in values.items()}


def _asked(devices: int, per_node: int | None = None) -> Draft:
    draft = Draft()
    draft.say("hardware.devices", Found(devices, "request"))
    if per_node is not None:
        draft.say("hardware.devices_per_node", Found(per_node, "request"))
    return draft


SYNTAX = Syntax(values=valued("n nodes ntasks-per-node o"), flags=switches("verbose version"))


@pytest.mark.parametrize(
    ("line", "options", "command"),
    [
        ("-n 4 a.py -n 5", {"n": "4"}, "a.py -n 5"),
        ("-n4 a.py", {"n": "4"}, "a.py"),
        ("-vn 4 a.py", {"v": "", "n": "4"}, "a.py"),
        ("--nodes=2 --ntasks_per_node 8 a.py", {"nodes": "2", "ntasks_per_node": "8"}, "a.py"),
        ("--ntasks 8 a.py", {"ntasks_per_node": "8"}, "a.py"),
        ("--ver a.py", {"ver": ""}, "a.py"),
        ("--verb a.py", {"verbose": ""}, "a.py"),
        ("-o -x a.py", {"o": "-x"}, "a.py"),
        ("-n 4 -- -a.py", {"n": "4"}, "-a.py"),
        ("--nodes", {"nodes": ""}, ""),
        ("-", {}, "-"),
    ],
)
def test_options_end_where_the_command_begins(
    line: str, options: dict[str, str], command: str
) -> None:
    split = split_options(_words(line), SYNTAX)

    given = {name: " ".join(word.text for word in split.every(name)) for name, _ in split.options}
    assert given == options
    assert " ".join(word.text for word in split.command) == command


def test_a_value_out_of_sight_stays_out_of_sight() -> None:
    word = Word(text="--nodes=$N", source="args[0]", unresolved=("$N",))

    split = split_options([word], SYNTAX)

    assert isinstance(split.settings().whole("nodes"), Unseen)


def test_nodes_and_their_processes_multiply() -> None:
    draft = Draft()

    say_world(World(nodes=Found(2, "a"), per_node=Found(8, "b")), draft, {})

    assert draft.said("hardware.devices") == Found(16, "b, a")
    assert draft.said("hardware.devices_per_node") == Found(8, "b")


def test_what_was_asked_for_stays_where_nodes_are_out_of_sight() -> None:
    draft = _asked(32, 8)

    say_world(World(nodes=Unseen("a", "no value"), per_node=Found(8, "b")), draft, {})

    assert draft.said("hardware.devices") == Found(32, "request")
    assert draft.finished().unknown == ()


def test_nothing_asked_for_and_nodes_out_of_sight_leave_the_devices_unknown() -> None:
    draft = Draft()

    say_world(World(nodes=Unseen("a", "no value"), per_node=Found(8, "b")), draft, {})

    assert [one.field for one in draft.finished().unknown] == ["hardware.devices"]


def test_a_process_for_every_device_takes_those_asked_for() -> None:
    draft = _asked(16, 8)

    every = EveryDevice(source="args[1]", what="auto")
    say_world(World(nodes=Found(2, "a"), per_node=every), draft, {})

    assert draft.said("hardware.devices") == Found(16, "request, a")


def test_devices_hidden_from_a_process_are_not_counted() -> None:
    draft = _asked(8, 8)

    every = EveryDevice(source="args[1]", what="gpu")
    world = World(nodes=Found(1, "a"), per_node=every)
    say_world(world, draft, _environment(CUDA_VISIBLE_DEVICES="0,3"))

    assert draft.said("hardware.devices") == Found(2, "env CUDA_VISIBLE_DEVICES")


def test_a_total_is_spread_over_the_nodes() -> None:
    draft = Draft()

    say_world(World(nodes=Found(2, "a"), total=Found(12, "b")), draft, {})

    assert draft.said("hardware.devices_per_node") == Found(6, "b, a")


@pytest.mark.parametrize("said", ["", "-1", "all", "void", "0,,1"])
def test_visible_devices_that_are_no_list_say_nothing(said: str) -> None:
    assert visible_devices(_environment(CUDA_VISIBLE_DEVICES=said)) is None


def test_a_task_of_slurm_knows_its_world() -> None:
    environment = _environment(SLURM_NTASKS="16", SLURM_NNODES="2", SLURM_PROCID="3")

    world = world_of_environment(environment)

    assert world is not None
    assert world.total == Found(16, "env SLURM_NTASKS")
    assert world.nodes == Found(2, "env SLURM_NNODES")


def test_a_batch_script_is_no_task() -> None:
    assert world_of_environment(_environment(SLURM_NTASKS="16", SLURM_NNODES="2")) is None
