"""Words expand as the real bash expands them: generated assignments and words, nothing else is run."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.launch.shell import bash
from vramgate.launch.shell.read import read_shell
from vramgate.launch.words import Word

pytestmark = [
    pytest.mark.skipif(bash.BASH is None, reason="compares with bash"),
    # The strategies nest; nobody reads their representation.
    pytest.mark.filterwarnings("ignore:Generating overly large repr"),
]

EXAMPLES = 400

# ---------------------------------------------------------------- made-up words

PLAIN = st.text("abXY19_-.,:=%+@", min_size=1, max_size=4)
SPACED = st.text("ab 1\t*?[]\n,:/.#%!^~'-", max_size=8).map(lambda text: text.replace("'", ""))
NAMES = st.sampled_from(["A", "B", "C", "N", "M", "EMPTY", "UNSET", "LIST"])
ARRAYS = st.sampled_from(["R", "S", "NONE"])
NUMBERS = st.integers(-3, 9).map(str)
PATTERNS = st.sampled_from(
    ["a", "*", "?", "[a-b]", "*.", ".*", "/*", "*/", "a*", "'*'", '"a"', "b?", "[!a]", "\\*"]
)


def _double_text(text: str) -> str:
    return '"' + "".join(f"\\{char}" if char in '$`"\\' else char for char in text) + '"'


SINGLE = SPACED.map(lambda text: f"'{text}'")
DOUBLE = SPACED.map(_double_text)
ANSI = st.sampled_from(["$'a\\tb'", "$'\\x41'", "$'it\\'s'", "$'\\u00e9'", "$'\\101'"])
ESCAPED = st.sampled_from([r"\ ", r"\$", r"\"", r"\'", "\\\n", r"\*", r"\a", r"\\"])


def _braced(name: str, operator: str, operand: str) -> str:
    return f"${{{name}{operator}{operand}}}"


DEFAULTS = st.sampled_from([":-", "-", ":+", "+"])
CUTS = st.sampled_from(["#", "##", "%", "%%"])
REPLACES = st.sampled_from(["/", "//", "/#", "/%"])
CASES = st.sampled_from(["^", "^^", ",", ",,"])
PLAIN_EXPANSIONS = st.one_of(
    NAMES.map(lambda name: f"${name}"),
    NAMES.map(lambda name: f"${{{name}}}"),
    NAMES.map(lambda name: f"${{#{name}}}"),
    st.builds(_braced, NAMES, CUTS, PATTERNS),
    st.builds(lambda n, o, p, r: f"${{{n}{o}{p}/{r}}}", NAMES, REPLACES, PATTERNS, PLAIN),
    st.builds(_braced, NAMES, CASES, st.just("")),
    st.builds(lambda n, o: f"${{{n}:{o}}}", NAMES, st.integers(0, 4)),
    st.builds(lambda n, o, c: f"${{{n}:{o}:{c}}}", NAMES, st.integers(0, 4), st.integers(0, 4)),
    st.builds(lambda n, o: f"${{{n}: -{o}}}", NAMES, st.integers(1, 3)),
    ARRAYS.map(lambda name: f"${{{name}[@]}}"),
    ARRAYS.map(lambda name: f"${{{name}[*]}}"),
    ARRAYS.map(lambda name: f"${{#{name}[@]}}"),
    ARRAYS.map(lambda name: f"${{{name}[1]}}"),
    ARRAYS.map(lambda name: f"${{{name}[0]}}"),
    st.sampled_from(['"${R[@]}"', '"${S[@]:1}"', '"$@"', '"${R[*]}"', '"${#R[@]}"', '"${R[@]%a}"']),
    st.builds(lambda n, o: f"${{{n}[@]:{o}}}", ARRAYS, st.integers(0, 3)),
    st.builds(lambda n, o, p: f"${{{n}[@]{o}{p}}}", ARRAYS, CUTS, PATTERNS),
    ARRAYS.map(lambda name: f"${{!{name}[@]}}"),
    st.sampled_from(
        ["$1", "$2", "$9", "${1}", "$@", "$*", "$#", "${@:2}", "${*}", "${#@}", "${!N}"]
    ),
    st.sampled_from(["$(echo a  b)", "`echo x`", "$(expr 2 \\* 3)", "$(basename /a/b.sh .sh)"]),
)


@st.composite
def arithmetic(draw: st.DrawFn) -> str:
    """An expression of whole numbers."""
    leaves = st.one_of(NUMBERS, st.sampled_from(["N", "M", "$N", "${M}", "0x1f", "010", "2#101"]))
    operators = st.sampled_from(
        [
            "+",
            "-",
            "*",
            "/",
            "%",
            "==",
            "!=",
            "<",
            ">=",
            "&&",
            "||",
            "<<",
            ">>",
            "&",
            "|",
            "^",
            "**",
        ]
    )

    def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.builds(lambda a, o, b: f"{a} {o} {b}", inner, operators, inner),
            inner.map(lambda text: f"({text})"),
            inner.map(lambda text: f"-{text}" if not text.startswith("-") else f"- {text}"),
            inner.map(lambda text: f"!{text}"),
            st.builds(lambda a, b, c: f"{a} ? {b} : {c}", inner, inner, inner),
        )

    return draw(st.recursive(leaves, grown, max_leaves=6))


ARITHMETIC = arithmetic().map(lambda text: f"$(({text}))")


def _is_quotable(text: str) -> bool:
    """Leave out lists beside other expansions: whether bash keeps an empty field depends on which."""
    return not set("\"'@") & set(text)


def _is_operand(text: str) -> bool:
    """Leave out what bash takes for other braces when it looks for those it expands first."""
    return "\n" not in text and "{" not in text.replace("${", "")


def _nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    joined = st.lists(inner, min_size=1, max_size=3).map("".join)
    return st.one_of(
        joined.map(lambda text: f'"{text}"' if _is_quotable(text) else text),
        st.builds(_braced, NAMES, DEFAULTS, joined.filter(_is_operand)),
        st.builds(lambda a, b: f"{{{a},{b}}}", joined, joined),
        joined,
    )


ATOMS = st.one_of(PLAIN, SINGLE, DOUBLE, ANSI, ESCAPED, PLAIN_EXPANSIONS, ARITHMETIC)
BRACES = st.sampled_from(
    [
        "{a,b}",
        "{1..3}",
        "{a..c}",
        "{01..03}",
        "{3..1}",
        "{1..9..4}",
        "{a}",
        "{}",
        "{a,b",
        "a}",
        "{,x}",
        "{a,{b,c}}",
    ]
)
WORDS = st.recursive(st.one_of(ATOMS, BRACES), _nested, max_leaves=5)


@st.composite
def scripts(draw: st.DrawFn) -> str:
    """Assignments, then ``p`` with words."""
    lines = [f"{name}={draw(st.one_of(SINGLE, DOUBLE, PLAIN))}" for name in "ABC"]
    lines += [f"N={draw(NUMBERS)}", f"M={draw(NUMBERS)}", "EMPTY=", "unset UNSET NONE"]
    lines += ["LIST='--a 1  --b 2'"]
    for name in "RS":
        elements = draw(st.lists(st.one_of(SINGLE, DOUBLE, PLAIN), max_size=3))
        lines.append(f"{name}=({' '.join(elements)})")
    if draw(st.booleans()):
        lines.append(
            draw(
                st.sampled_from(
                    ["A+=x", "R+=(y 'z z')", "R[1]=q", "C=$A$B", 'B="$LIST"', "A=$LIST"]
                )
            )
        )
    lines.append("p " + " ".join(draw(st.lists(WORDS, min_size=1, max_size=3))))
    return "\n".join(lines) + "\n"


ARGUMENTS = ("one", "two words", "")


def our_words(script: str, arguments: tuple[str, ...]) -> list[list[str]] | None:
    given = tuple(Word(text=text, source="given") for text in arguments)
    reading = read_shell(script, environment={}, name="script", arguments=given)
    called = [command for command in reading.commands if command.words[0].text == "p"]
    if not all(word.is_known for command in called for word in command.words):
        return None
    return [[word.text for word in command.words[1:]] for command in called]


@settings(max_examples=EXAMPLES, deadline=None)
@given(script=scripts())
def test_every_word_is_what_bash_makes_of_it(script: str) -> None:
    expected = bash.words(script, ARGUMENTS)
    if expected is not None:
        ours = our_words(script, ARGUMENTS)
        assert ours is None or ours == expected
