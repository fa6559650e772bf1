"""A script is refused exactly where ``bash -n`` refuses it: pieces of shell, thrown together."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.launch.shell import bash
from vramgate.launch.documents import UnreadableLaunchError
from vramgate.launch.shell.parse import parse_script

pytestmark = pytest.mark.skipif(bash.BASH is None, reason="compares with bash")

EXAMPLES = 400

_KEYWORDS = "if then elif else fi for while until do done case esac in select function time { } !"
_OPERATORS = "[[ ]] ( ) (( )) ; ;; ;& ;;& & && | || |& < > >> << <<- <<< <( >( 2> &> >& >|"
_WORDS = "a b= b=(1 x[1]=2 export f() -n == =~ -eq $x ${x} ${x:-y} $(a) $(( )) `a` [ ] {a,b} #c"
PIECES = st.sampled_from(
    [
        *_KEYWORDS.split(),
        *_OPERATORS.split(),
        *_WORDS.split(),
        *["'a b'", '"a $x"', "'", '"', "`", "$(", "\\", "\\\n", "$'", "EOF", "a)", "(a)"],
        *["cat <<EOF\nx\nEOF\n", "cat <<'EOF'\n$(\nEOF\n", "<<EOF"],
    ]
)
BETWEEN = st.sampled_from([" ", " ", " ", "\n", ""])
SOUP = st.lists(st.tuples(PIECES, BETWEEN), min_size=1, max_size=9).map(
    lambda pieces: "".join(piece + blank for piece, blank in pieces) + "\n"
)
COMMANDS = st.recursive(
    st.sampled_from(
        ["a b", "X=1", "a >f", "[[ a == b* ]]", "((x++))", "! a", "time a", "f() { a; }"]
    ),
    lambda inner: st.one_of(
        inner.map(lambda body: f"if {body}; then {body}; fi"),
        inner.map(lambda body: f"while {body}; do {body}; done"),
        inner.map(lambda body: f"for i in 1 2; do {body}; done"),
        inner.map(lambda body: f"case x in a|b) {body};; *) {body} ;; esac"),
        inner.map(lambda body: f"( {body} )"),
        inner.map(lambda body: f"{{ {body}; }}"),
        inner.map(lambda body: f"echo $( {body} )"),
        st.builds(lambda a, b: f"{a} && {b}", inner, inner),
        st.builds(lambda a, b: f"{a} | {b}", inner, inner),
        st.builds(lambda a, b: f"{a}\n{b}", inner, inner),
    ),
    max_leaves=4,
)


def accepts(text: str) -> bool:
    try:
        parse_script(text, "script")
    except UnreadableLaunchError:
        return False
    return True


def agrees_with_bash(text: str) -> bool:
    expected = bash.accepts(text)
    # What bash read as arithmetic it reads again as a subshell, but not the here-documents in it.
    is_reread = "((" in text and "<<" in text
    return expected is None or is_reread or accepts(text) == expected


@settings(max_examples=EXAMPLES, deadline=None)
@given(text=SOUP)
def test_pieces_thrown_together_are_judged_as_by_bash(text: str) -> None:
    assert agrees_with_bash(text)


@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(text=COMMANDS, cut=st.integers(0, 400), piece=PIECES)
def test_damaged_scripts_are_judged_as_by_bash(text: str, cut: int, piece: str) -> None:
    place = cut % (len(text) + 1)

    assert agrees_with_bash(f"{text}\n")
    assert agrees_with_bash(f"{text[:place]} {piece} {text[place:]}\n")


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("echo 'a\nb", 1, 6),
        ('a\nb "c', 2, 3),
        ("echo $(a", 1, 7),
        ("echo ${a", 1, 7),
        ("echo `a", 1, 6),
        ("if a; then b", 1, 13),
        ("a\nfi\n", 2, 1),
        ("a | | b", 1, 5),
        ("x=(1 ; 2)", 1, 6),
    ],
)
def test_what_is_refused_is_refused_with_its_place(text: str, line: int, column: int) -> None:
    with pytest.raises(UnreadableLaunchError) as refused:
        parse_script(text, "run.sh")

    assert refused.value.data["file"] == "run.sh"
    assert (refused.value.data["line"], refused.value.data["column"]) == (line, column)
