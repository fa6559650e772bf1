"""A site's own words in a Slurm comment: ``--comment='vramgate:{"micro-batch-size": 2}'``."""

from collections.abc import Mapping

from vramgate.launch.documents import UnreadableLaunchError, read_json
from vramgate.launch.words import Word

_MARK = "vramgate:"
_SPEC = "spec"
_OF_SPECS = frozenset({"job", "model"})


def comment_annotations(options: Mapping[str, Word]) -> Mapping[str, Word]:
    """Return the annotations of a request's comment: a whole spec, or words by their keys.

    >>> said = Word(text='vramgate:{"micro-batch-size": 2}', source="#SBATCH --comment")
    >>> comment_annotations({"comment": said})["micro-batch-size"].text
    '2'
    """
    comment = options.get("comment")
    if comment is None or not comment.text.startswith(_MARK):
        return {}
    text = comment.text.removeprefix(_MARK).strip()
    whole = {_SPEC: Word(text=text, source=comment.source, unresolved=comment.unresolved)}
    try:
        said = read_json(text, "comment")
    except UnreadableLaunchError:
        return whole  # whoever reads specs tells of it
    if not isinstance(said, dict) or _OF_SPECS & said.keys() or not comment.is_known:
        return whole
    return {
        name: Word(text=str(value), source=f"{comment.source} {name}")
        for name, value in said.items()
    }
