"""DeepSpeed's configuration wherever it comes from: a file, JSON or base64 on the command line, an object.

Sources: DeepSpeed 0.19.8 ``runtime/config.py`` (``DeepSpeedConfig.__init__``: a path, base64, or an
object; Hjson), accelerate 1.15.0 ``utils/deepspeed.py`` (``HfDeepSpeedConfig.__init__``: JSON too).
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from vramgate.launch.documents import UnreadableLaunchError, read_json, unreadable
from vramgate.launch.files import SentFile
from vramgate.launch.frameworks.deepspeed.packaged import packaged_config
from vramgate.launch.launch import Context
from vramgate.launch.reading import Found, Misread, Reading, Unseen
from vramgate.launch.settings import Setting, Settings
from vramgate.launch.words import Word

AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepSpeedFile:
    """DeepSpeed's own words, as they stand in its JSON."""

    values: Mapping[str, Any]
    prefix: str
    """Before a key's path: ``ds.json: ``, ``train.yaml: deepspeed.``."""
    packaged: bool = False
    """Whether it is a file that a framework ships, and nobody sent."""

    def settings(self) -> Settings:
        """Return the entries at the top."""
        return _settings(self.values, self.prefix)

    def section(self, *path: str) -> Settings:
        """Return a section's entries without ``"auto"``; empty where it is no section."""
        values: object = self.values
        for part in path:
            values = values.get(part) if isinstance(values, Mapping) else None
        if not isinstance(values, Mapping):
            return Settings()
        kept = {key: value for key, value in values.items() if value != AUTO}
        return _settings(kept, f"{self.prefix}{'.'.join(path)}.")

    def is_auto(self, *path: str) -> bool:
        """Return whether an entry is ``"auto"``: Hugging Face fills it from the trainer."""
        values: object = self.values
        for part in path:
            values = values.get(part) if isinstance(values, Mapping) else None
        return values == AUTO

    def place(self, path: str) -> str:
        """Return the place of an entry, said or not."""
        return f"{self.prefix}{path}"


def _settings(values: Mapping[str, Any], prefix: str) -> Settings:
    return Settings(
        {
            str(key): Setting(said=said, source=f"{prefix}{key}")
            for key, said in values.items()
            if said is not None
        }
    )


FileReader: TypeAlias = Callable[[SentFile], "DeepSpeedFile"]


def find_deepspeed(
    setting: Setting, context: Context, *, read_file: FileReader
) -> Reading[DeepSpeedFile]:
    """Return DeepSpeed's configuration; who loads it decides what a file may hold.

    Raises:
        UnreadableLaunchError: a file was sent that is not JSON.
    """
    said = setting.said
    if isinstance(said, Mapping):
        return Found(DeepSpeedFile(values=said, prefix=f"{setting.source}."), setting.source)
    if isinstance(said, str):
        return _named(Word(text=said, source=setting.source), setting.source, context, read_file)
    if isinstance(said, tuple) and said and isinstance(said[0], Word):
        return _named(said[0], setting.source, context, read_file)
    return Misread(setting.source, said, "a DeepSpeed configuration: a file's name or an object")


def _named(
    word: Word, source: str, context: Context, read_file: FileReader
) -> Reading[DeepSpeedFile]:
    """Return the configuration that a word is, or names."""
    if word.text.lstrip().startswith("{") and word.is_known:
        return Found(_of_text(word.text, source), source)
    found = context.files.find(word)
    if isinstance(found, Found):
        return Found(read_file(found.value), source)
    encoded = _decoded(word.text) if word.is_known else None
    if encoded is not None:
        return Found(_of_text(encoded, source), source)
    framework = context.draft.said("software.framework")
    packaged = packaged_config(word.text, framework.value if framework else None)
    if packaged is not None:
        values, place = packaged
        return Found(DeepSpeedFile(values=values, prefix=f"{place}: ", packaged=True), source)
    if isinstance(found, Unseen):
        return Unseen(source, found.reason, " ".join(filter(None, [found.hint, _hint(word.text)])))
    return found


def _of_text(text: str, source: str) -> DeepSpeedFile:
    """Return the configuration that a text is.

    Raises:
        UnreadableLaunchError: it is no JSON object.
    """
    return _of_values(read_json(text, source), source)


def read_json_file(file: SentFile) -> DeepSpeedFile:
    """Return a file's words as Hugging Face's trainers load them (``json.load``), whatever its name.

    Raises:
        UnreadableLaunchError: it is not JSON, or holds no object.
    """
    return _of_values(read_json(file.text, file.name), file.name)


def read_hjson_file(file: SentFile) -> DeepSpeedFile:
    """Return a file's words as DeepSpeed itself loads them: Hjson allows comments.

    Raises:
        UnreadableLaunchError: it is neither JSON nor JSON with comments, or holds no object.
    """
    try:
        return read_json_file(file)
    except UnreadableLaunchError:
        text = without_comments(file.text)
        if text == file.text:
            raise
        return _of_values(read_json(text, file.name), file.name)


def _of_values(values: object, name: str) -> DeepSpeedFile:
    if not isinstance(values, dict):
        raise unreadable(name, "it holds no object of settings")
    return DeepSpeedFile(values=values, prefix=f"{name}: ")


def without_comments(text: str) -> str:
    """Return a text without ``# …``, ``// …`` and ``/* … */``; what stands in quotes stays.

    >>> without_comments('{"a": 1, // one')
    '{"a": 1, '
    """
    kept: list[str] = []
    index, quoted = 0, False
    while index < len(text):
        here = text[index]
        if quoted:
            length = 2 if here == "\\" else 1
            quoted = here != '"'
        elif text.startswith("/*", index):
            end = text.find("*/", index + 2)
            index = len(text) if end < 0 else end + 2
            continue
        elif here == "#" or text.startswith("//", index):
            end = text.find("\n", index)
            index = len(text) if end < 0 else end
            continue
        else:
            length, quoted = 1, here == '"'
        kept.append(text[index : index + length])
        index += length
    return "".join(kept)


def _decoded(text: str) -> str | None:
    """Return the JSON behind base64; file names do not decode to it."""
    try:
        plain = base64.urlsafe_b64decode(text).decode()
    except (binascii.Error, ValueError):
        return None
    return plain if plain.lstrip().startswith("{") else None


_TELLING = (
    ("zero3", 3),
    ("zero_3", 3),
    ("zero-3", 3),
    ("z3", 3),
    ("stage3", 3),
    ("stage_3", 3),
    ("zero2", 2),
    ("zero_2", 2),
    ("zero-2", 2),
    ("z2", 2),
    ("stage2", 2),
    ("stage_2", 2),
    ("zero1", 1),
    ("z1", 1),
    ("stage1", 1),
)


def _hint(path: str) -> str:
    """Return what a file's name lets one expect.

    >>> _hint("configs/ds_z3_offload.json")
    '(its name looks like ZeRO stage 3 with offload)'
    """
    name = path.rpartition("/")[2].lower()
    stage = next((stage for part, stage in _TELLING if part in name), None)
    if stage is None:
        return ""
    return f"(its name looks like ZeRO stage {stage}{' with offload' if 'offload' in name else ''})"
