"""read_launch: from a launch to the job it starts, from the weakest word to the strongest."""

from collections.abc import Mapping, Sequence
from typing import Any

from vramgate.launch.annotations.read import say_annotations, say_machine
from vramgate.launch.commands.programs import config_reader
from vramgate.launch.commands.read import read_commands
from vramgate.launch.documents import read_json, read_toml, read_yaml, unreadable
from vramgate.launch.draft import Draft, ParsedLaunch
from vramgate.launch.files import Files
from vramgate.launch.frameworks.deepspeed.reader import settle_precision
from vramgate.launch.launch import Context, Launch
from vramgate.launch.manifests.read import read_manifest
from vramgate.launch.reading import Found
from vramgate.launch.sbatch import read_batch_script
from vramgate.launch.shell.read import read_shell
from vramgate.launch.words import Command, Word


def read_launch(launch: Launch, *, hardware: Mapping[str, object] | None = None) -> ParsedLaunch:
    """Return what a launch says of its job; ``hardware`` is said of the cards by whoever asks.

    Raises:
        UnreadableLaunchError: a text is not what it should be: YAML, JSON, TOML, a shell's line.
        UnknownFrameworkError: ``config`` is of a framework whose words are not known.
    """
    draft = Draft()
    context = Context(draft=draft, files=Files(launch.files))
    environment = {
        name: Word(text=value, source=f"env {name}") for name, value in launch.env.items()
    }
    say_machine(_own_variables(environment), context)
    if launch.manifest is not None:
        read_manifest(launch.manifest, environment, context)
    if launch.script is not None:
        read_batch_script(launch.script, environment, context)
    if launch.command is not None:
        _read_command(launch.command, environment, context)
    if launch.config is not None:
        read = config_reader(launch.framework)
        read(_object(launch.config, "config"), "config", context)
        settle_precision(draft)
    if launch.manifest is None and launch.script is None:
        # Readers of manifests and scripts say them themselves: their annotations win over variables.
        say_annotations(_own_variables(environment), context)
    _use_sent_config(launch, context)
    for name, value in (hardware or {}).items():
        draft.say(f"hardware.{name}", Found(value, "hardware of the request"))
    return draft.finished(missing_files=context.files.missed)


def _use_sent_config(launch: Launch, context: Context) -> None:
    """Take a model's ``config.json`` where it came along: told, or under the model's own path."""
    draft, config = context.draft, launch.model_config
    source = "the model's own config"
    named = draft.said("model.name")
    if config is None and named is not None:
        sent = context.files.get(f"{named.value}/config.json")
        if sent is not None:
            config, source = sent.mapping(), sent.name
    if config is not None:
        draft.forget("model")
        draft.say("model.config", Found(config, source))


def _read_command(
    command: str | Sequence[str], environment: Mapping[str, Word], context: Context
) -> None:
    if isinstance(command, str):
        reading = read_shell(command, environment=environment)
        for name, text in reading.files.items():
            context.files.add(name, text)
        read_commands(reading.commands, context)
        return
    words = tuple(Word(text=text, source=f"args[{index}]") for index, text in enumerate(command))
    read_commands([Command(words=words, environment=environment)], context)


def _object(said: str | Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return an object that came as it is, or as YAML, JSON or TOML.

    Raises:
        UnreadableLaunchError: the text is none of them.
    """
    if not isinstance(said, str):
        return said
    value = _value(said, name)
    if not isinstance(value, dict):
        raise unreadable(name, "it is not an object of settings")
    return value


def _value(text: str, name: str) -> Any:  # noqa: ANN401 whatever it holds
    start = text.lstrip()[:1]
    if start == "{":
        return read_json(text, name)
    first = next(
        (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")),
        "",
    )
    is_toml = (start == "[" and "]" in first) or (
        "=" in first and ":" not in first.partition("=")[0]
    )
    return read_toml(text, name) if is_toml else read_yaml(text, name)


def _own_variables(environment: Mapping[str, Word]) -> Mapping[str, Word]:
    return {name: word for name, word in environment.items() if name.startswith("VRAMGATE_")}
