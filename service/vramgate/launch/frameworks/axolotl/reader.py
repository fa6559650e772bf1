"""axolotl: ``axolotl train F.yml --key value -- launcher words``, its module, and its YAML as an object.

Read in axolotl 0.19.0: ``cli/main.py``, ``cli/config.py``, ``utils/schemas/*.py``,
``utils/config/``, ``loaders/``, ``core/builders/``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from vramgate.launch.frameworks.accelerate.reader import accelerate_world, say_accelerate
from vramgate.launch.frameworks.accelerate.settings import of_environment, with_config_file
from vramgate.launch.frameworks.axolotl.method import say_method
from vramgate.launch.frameworks.axolotl.rules import check
from vramgate.launch.frameworks.axolotl.sharding import say_sharding
from vramgate.launch.frameworks.axolotl.training import say_precision, say_training
from vramgate.launch.frameworks.tuners import (
    Told,
    from_file,
    is_config,
    program_name,
    say_unseen,
    without,
)
from vramgate.launch.launch import Context, Invocation
from vramgate.launch.reading import Found
from vramgate.launch.settings import Setting, Settings, of_document, of_flags
from vramgate.launch.words import Word
from vramgate.launch.world import say_world, torchrun_world

NAME = "axolotl"
_ALLOCATOR = "axolotl's command (PYTORCH_ALLOC_CONF)"
_OWN_ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
_OFF = "no_"


def read(invocation: Invocation, context: Context) -> None:
    """Read a command line of axolotl's.

    Raises:
        UnreadableLaunchError: a file is not what its name says.
    """
    context.draft.say("software.framework", Found(NAME, invocation.source))
    words, behind = _parted(invocation.words)
    is_command = program_name(invocation.program) in {"axolotl", "axolotl.cli.main"}
    if is_command:
        if not words or words[0].text != "train":
            context.draft.warn(
                "not_training", f"{invocation.program} without train trains nothing."
            )
            return
        words = words[1:]
    path = next((word for word in words if is_config(word)), None)
    over = _with_switches(of_flags(without(words, path)))
    if is_command:
        _say_launcher(invocation, over, behind, context)
    told = from_file(path, over, context) if path is not None else Told(settings=over)
    _say(told, context)


def read_config(config: Mapping[str, Any], name: str, context: Context) -> None:
    """Read axolotl's YAML as an object."""
    context.draft.say("software.framework", Found(NAME, name))
    _say(Told(settings=of_document(config, name)), context)


def _parted(words: Sequence[Word]) -> tuple[tuple[Word, ...], tuple[Word, ...]]:
    """Return the words before ``--``, and those behind it, which are the launcher's."""
    for index, word in enumerate(words):
        if word.text == "--":
            return tuple(words[:index]), tuple(words[index + 1 :])
    return tuple(words), ()


def _with_switches(flags: Settings) -> Settings:
    """Return the flags with click's ``--no-x`` as ``x: false``."""
    settings: dict[str, Setting] = {}
    for name, setting in flags.items():
        if name.startswith(_OFF) and setting.said == ():
            settings[name.removeprefix(_OFF)] = Setting(said=False, source=setting.source)
        else:
            settings[name] = setting
    return Settings(settings)


def _say_launcher(
    invocation: Invocation, over: Settings, behind: Sequence[Word], context: Context
) -> None:
    """Say what the command starts: accelerate unless told otherwise, with the words behind ``--``."""
    draft, environment = context.draft, invocation.environment
    launcher = over.text("launcher")
    name = launcher.value if isinstance(launcher, Found) else "accelerate"
    options = of_flags(behind)
    if name == "torchrun":
        say_world(torchrun_world(options, environment), draft, environment)
    elif name == "accelerate":
        own = {key: over[key] for key in ("num_processes",) if key in over}
        options = options.over(Settings(own)).over(of_environment(environment))
        resolved = with_config_file(options, context.files)
        say_accelerate(options, context)
        say_world(accelerate_world(resolved, invocation.source), draft, environment)
    if not any(variable in environment for variable in _OWN_ALLOCATOR):
        # utils/__init__.py set_pytorch_cuda_alloc_conf, with torch 2.2 or newer.
        draft.assume("software.expandable_segments", value=True, source=_ALLOCATOR)


def _say(told: Told, context: Context) -> None:
    settings, draft = told.settings, context.draft
    is_whole = told.unseen is None
    draft.say("model.name", settings.text("base_model"))
    _warn_of_overrides(settings, context)
    say_method(settings, context)
    say_training(settings, draft, is_whole=is_whole)
    say_sharding(settings, context)
    say_precision(settings, draft)
    if told.unseen is not None:
        say_unseen(told.unseen, context)
        return
    check(settings, draft)


def _warn_of_overrides(settings: Settings, context: Context) -> None:
    overrides = settings.value("overrides_of_model_config", "model_config")
    if isinstance(overrides, Found) and isinstance(overrides.value, Mapping) and overrides.value:
        names = ", ".join(str(key)[:40] for key in list(overrides.value)[:8])
        context.draft.warn(
            "model_overrides",
            f"{overrides.source} changes the model's config ({names}); the estimate takes the model"
            " as it is named.",
        )
