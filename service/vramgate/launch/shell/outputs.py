"""Files that a script writes itself: ``cat > ds.json <<EOF``, ``echo … > f``, ``… | tee f``."""

from collections.abc import Sequence

from vramgate.launch.documents import UnreadableLaunchError
from vramgate.launch.shell.expand import Expander
from vramgate.launch.shell.parse import parse_quoted
from vramgate.launch.shell.syntax import HereDocument, Redirection
from vramgate.launch.shell.texts import output_of, prints
from vramgate.launch.shell.values import Pieces, text_of

_INPUTS = frozenset({"", "0"})
_TO_FILE = frozenset({">", ">>", ">|", "&>", "&>>"})
_APPENDS = frozenset({">>", "&>>"})
_OUTPUTS = frozenset({"", "1"})
_NO_FILE = ("/dev/", "&")


class Outputs:
    """Follows texts from here-documents and ``echo`` into files."""

    def __init__(self, expander: Expander) -> None:
        self._expander = expander
        self.files: dict[str, str] = {}
        self._groups: list[list[str | None]] = []

    def given(self, redirections: Sequence[Redirection], piped: str | None) -> str | None:
        """Return the text a command reads; None where it cannot be told."""
        text = piped
        for one in redirections:
            if isinstance(one, HereDocument):
                if one.descriptor in _INPUTS:
                    text = self._document(one)
            elif one.operator == "<<<":
                text = text_of(self._expander.text(one.target)) + "\n"
            elif one.operator in {"<", "<>", "<&"} and one.descriptor in _INPUTS:
                text = None
        return text

    def _document(self, document: HereDocument) -> str:
        if not document.expands:
            return document.body
        try:
            return text_of(self._expander.joined(parse_quoted(document.body)))
        except UnreadableLaunchError as error:
            if error.data.get("file") != "text":
                raise
            return document.body

    def take(
        self, fields: Sequence[Pieces], redirections: Sequence[Redirection], given: str | None
    ) -> str | None:
        """Note what a command writes to files, and return what it writes to a pipe."""
        name = text_of(fields[0])
        if name != "tee" and not prints(name):
            return self.redirected(None, redirections)
        words = [text_of(field) for field in fields]
        output = output_of(words, given)
        if name == "tee" and given is not None:
            appends = "-a" in words
            for path in words[1:]:
                if not path.startswith("-"):
                    self._write(path, given, appends=appends)
        return self.redirected(output, redirections)

    def redirected(self, output: str | None, redirections: Sequence[Redirection]) -> str | None:
        """Put a text where the redirections say; return what is left for a pipe."""
        for one in reversed(redirections):
            if isinstance(one, HereDocument) or one.descriptor not in _OUTPUTS:
                continue
            if one.operator in _TO_FILE:
                path = text_of(self._expander.text(one.target))
                self._write(path, output, appends=one.operator in _APPENDS)
                return ""
            if one.operator == ">&":
                return None
        if self._groups:
            self._groups[-1].append(output)
        return output

    def _write(self, path: str, text: str | None, *, appends: bool) -> None:
        if not path or path.startswith(_NO_FILE):
            return
        if text is None:
            self.files.pop(path, None)
        else:
            self.files[path] = self.files.get(path, "") + text if appends else text

    # ------------------------------------------------------------ groups

    def open_group(self) -> None:
        """Collect what the commands of ``{ …; } > file`` print."""
        self._groups.append([])

    def close_group(self) -> str | None:
        """Return what they printed; None where some of it cannot be told."""
        texts = self._groups.pop()
        known = [text for text in texts if text is not None]
        return "".join(known) if len(known) == len(texts) else None
