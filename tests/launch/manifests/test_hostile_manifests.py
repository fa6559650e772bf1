"""Whatever stands where in a manifest, it is read, or refused by name."""

import copy
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.launch.manifests.objects import MANIFESTS
from vramgate.errors import DomainError
from vramgate.launch.launch import Launch
from vramgate.launch.read import read_launch

_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([-1, 0, 10**30, 2**63, "two", "8", "", "1e400", "$(MODEL)", "$(A)$(A)", "0.5"]),
    st.floats(),
    st.text(max_size=8),
)
_ANYTHING = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)
_GONE = object()


def _places(value: object) -> list[tuple[Any, ...]]:
    """Return the way to every value in a document."""
    found: list[tuple[Any, ...]] = [()]
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, one in inner:
        found += [(key, *rest) for rest in _places(one)]
    return found


def _changed(value: object, place: tuple[Any, ...], new: object) -> object:
    """Return a document with one value replaced, or taken out."""
    document: Any = copy.deepcopy(value)
    if not place:
        return document if new is _GONE else new
    here = document
    for key in place[:-1]:
        here = here[key]
    if new is _GONE:
        del here[place[-1]]
    else:
        here[place[-1]] = new
    return document


@pytest.mark.parametrize(
    "manifest", MANIFESTS, ids=lambda one: "{apiVersion}:{kind}".format(**one["items"][0])
)
def test_every_kind_to_be_changed_is_read(manifest: dict[str, Any]) -> None:
    parsed = read_launch(Launch(manifest=manifest))

    assert parsed.provenance


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_no_manifest_is_more_than_refused(data: st.DataObject) -> None:
    document: object = data.draw(st.sampled_from(MANIFESTS))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from(_places(document)))
        document = _changed(document, place, data.draw(st.just(_GONE) | _ANYTHING))
    if not isinstance(document, dict):
        return

    try:
        parsed = read_launch(Launch(manifest=document))
    except DomainError:
        return
    assert all(problem.detail for problem in parsed.problems)


def test_references_to_references_stay_short() -> None:
    env = [{"name": "A0", "value": "x" * 1000}]
    env += [{"name": f"A{i}", "value": f"$(A{i - 1})" * 10} for i in range(1, 40)]
    container = {"name": "a", "command": ["python", "train.py", "$(A39)"], "env": env}
    manifest = {"kind": "Pod", "spec": {"containers": [container]}}

    read_launch(Launch(manifest=manifest))


def test_large_manifests_take_no_longer_than_their_size() -> None:
    many = 3000
    data = {f"K{i}": "x" * 100 for i in range(many)}
    env = [
        {"name": f"V{i}", "valueFrom": {"configMapKeyRef": {"name": "a", "key": f"K{i}"}}}
        for i in range(many)
    ]
    env += [{"name": f"W{i}", "value": "$(V0)" * 20} for i in range(many)]
    container = {
        "name": "run",
        "command": ["python", "train.py"],
        "args": ["--flag", "$(W1)"] * many,
        "env": env,
        "envFrom": [{"configMapRef": {"name": "a"}}] * many,
        "volumeMounts": [{"name": "v", "mountPath": f"/m{i}"} for i in range(many)],
        "resources": {"claims": [{"name": "c"}] * many},
    }
    volumes = [{"name": "v", "configMap": {"name": "a"}}] * many
    claims = [{"name": "c", "resourceClaimName": "c"}] * many
    requests = [{"name": "r", "deviceClassName": "gpu.nvidia.com"}] * many
    items = [
        {
            "kind": "Pod",
            "spec": {"containers": [container], "volumes": volumes, "resourceClaims": claims},
        },
        {"kind": "ConfigMap", "metadata": {"name": "a"}, "data": data},
        {
            "kind": "ResourceClaim",
            "metadata": {"name": "c"},
            "spec": {"devices": {"requests": requests}},
        },
        *({"kind": "ConfigMap", "metadata": {"name": f"b{i}"}} for i in range(many)),
    ]
    start = time.process_time()

    read_launch(Launch(manifest={"kind": "List", "items": items}))

    assert time.process_time() - start < 10


def test_a_manifest_full_of_slips_names_some() -> None:
    container = {"name": "run", "command": ["python", "train.py"], "args": list(range(50_000))}

    parsed = read_launch(Launch(manifest={"kind": "Pod", "spec": {"containers": [container]}}))

    assert 1 < len(parsed.problems) < 100
