"""Which object of a manifest is meant, and what is refused."""

import json

import pytest

from vramgate.launch.documents import UnreadableLaunchError
from vramgate.launch.draft import ParsedLaunch
from vramgate.launch.launch import Launch
from vramgate.launch.read import read_launch

POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  containers:
  - name: run
    command: [python, run_clm.py]
    resources: {limits: {nvidia.com/gpu: %d}}
"""


def read(text: str) -> ParsedLaunch:
    return read_launch(Launch(manifest=text))


def refusal(text: str) -> UnreadableLaunchError:
    with pytest.raises(UnreadableLaunchError) as caught:
        read(text)
    return caught.value


def test_the_object_with_devices_is_meant() -> None:
    parsed = read("---".join((POD % ("viewer", 0), POD % ("run", 2), "kind: Service\n")))

    assert parsed.job["hardware"]["devices"] == 2


def test_what_is_wrong_with_the_others_is_not_said() -> None:
    broken = "apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: two, template: 3}\n"

    assert read(f"{POD % ('run', 2)}---\n{broken}").problems == ()


def test_a_list_is_taken_apart() -> None:
    lists = "apiVersion: v1\nkind: List\nitems:\n- kind: PodList\n  items:\n  - {kind: Pod, spec: {containers: []}}\n"

    assert read(lists).unknown


def test_json_is_a_manifest_too() -> None:
    manifest = {
        "kind": "Pod",
        "spec": {"containers": [{"name": "a", "command": ["python", "a.py"]}]},
    }

    assert read(json.dumps(manifest)) == read_launch(Launch(manifest=manifest))


def test_two_that_may_train_are_refused_by_name() -> None:
    error = refusal("---".join((POD % ("first", 1), POD % ("second", 1))))

    assert "Pod first, Pod second" in error.message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kind: Service\nmetadata: {name: a}\n", "only Service"),
        ("kind: [Pod]\n", "no kind"),
        ("- kind: Pod\n", "no object"),
        ("just text\n", "no object"),
        ("", "no object"),
        ("kind: List\nitems: []\n", "no object"),
        ("kind: {\n", "not YAML"),
        ("{{- if .Values.enabled }}\nkind: Pod\n{{- end }}\n", "template of Helm"),
        ("kind: Notebook\nspec: {}\n", "only Notebook"),
    ],
)
def test_what_holds_no_training_is_refused(text: str, says: str) -> None:
    assert says in refusal(text).message


def test_the_kinds_that_are_read_are_named() -> None:
    hint = refusal("kind: TFJob\n").hint

    assert all(kind in hint for kind in ("PyTorchJob", "TrainJob", "JobSet", "RayJob", "Volcano"))


# What the API server decodes strictly is a problem with its path; nothing else of the object is lost.
@pytest.mark.parametrize(
    ("spec", "place"),
    [
        ("{replicas: two, template: %s}", "spec.replicas"),
        ("{replicas: -1, template: %s}", "spec.replicas"),
        ("{replicas: 10000000000000000000000, template: %s}", "spec.replicas"),
        ("{replicas: true, template: %s}", "spec.replicas"),
    ],
)
def test_a_count_that_is_none_is_a_problem_with_its_path(spec: str, place: str) -> None:
    pod = "{spec: {containers: [{name: a, command: [python, a.py], resources: {limits: {nvidia.com/gpu: 1}}}]}}"

    parsed = read(f"kind: StatefulSet\nspec: {spec % pod}\n")

    assert place in {source for one in parsed.problems for source in one.values}


@pytest.mark.parametrize(
    ("container", "place"),
    [
        ("{name: a, command: python a.py}", "spec.containers[0].command"),
        ("{name: a, command: [python, a.py], args: {}}", "spec.containers[0].args"),
        ("{name: a, command: [python, 3]}", "spec.containers[0].command[1]"),
        ("{name: a, command: [python, null, [b]]}", "spec.containers[0].command[2]"),
        ("{name: a, command: [python, a.py], env: {A: b}}", "spec.containers[0].env"),
        (
            "{name: a, command: [python, a.py], env: [{name: A, value: 3}]}",
            "spec.containers[0].env[0].value",
        ),
        ("{name: a, command: [python, a.py], resources: 8}", "spec.containers[0].resources"),
        ("{name: 3, command: [python, a.py]}", "spec.containers[0].name"),
    ],
)
def test_a_part_of_another_shape_is_a_problem_with_its_path(container: str, place: str) -> None:
    parsed = read(f"kind: Pod\nspec: {{containers: [{container}]}}\n")

    assert place in {source for one in parsed.problems for source in one.values}


@pytest.mark.parametrize(
    "spec", ["null", "[]", "text", "{containers: {}}", "{containers: []}", "{containers: [null]}"]
)
def test_a_pod_without_containers_says_nothing(spec: str) -> None:
    parsed = read(f"kind: Pod\nspec: {spec}\n")

    assert {one.field for one in parsed.unknown} >= {"model", "micro_batch_size"}


def test_a_world_beyond_counting_is_a_problem() -> None:
    pod = "{spec: {containers: [{name: a, command: [python, a.py], resources: {limits: {nvidia.com/gpu: 8}}}]}}"
    job = f"{{parallelism: 1000000, template: {pod}}}"

    parsed = read(
        f"kind: JobSet\nspec: {{replicatedJobs: [{{name: a, template: {{spec: {job}}}}}]}}\n"
    )

    assert [one.rule for one in parsed.problems] == ["not_a_value"]
    assert parsed.problems[0].field == "hardware.devices"
