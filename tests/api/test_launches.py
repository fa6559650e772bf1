"""Launches over HTTP: read, estimated, reported; the files they name sent ahead."""

import hashlib
import json
from typing import Any

import httpx
import pytest

from tests.factories import a_job
from vramgate.wire.launch import MAX_LAUNCH_TEXT

PARSE, ESTIMATES, FILES = "/v1/launches/parse", "/v1/estimates", "/v1/files"
DS = '{"bf16": {"enabled": true}, "zero_optimization": {"stage": 3}}'
COMMAND = (
    "torchrun --nnodes 2 --nproc_per_node 8 run_clm.py --model_name_or_path meta-llama/Llama-3.1-8B"
    " --bf16 --torch_dtype bfloat16 --block_size 4096 --per_device_train_batch_size 1"
    " --gradient_accumulation_steps 4 --gradient_checkpointing --attn_implementation sdpa"
)
SCRIPT = f"""#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gres=gpu:a100:8
#SBATCH --constraint=a100-80g
{COMMAND} --deepspeed ds.json
"""


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def parsed(client: httpx.AsyncClient, **body: Any) -> dict[str, Any]:  # noqa: ANN401 JSON
    answer = await client.post(PARSE, json=body)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def test_a_launch_is_read_with_the_place_of_each_field(client: httpx.AsyncClient) -> None:
    told = await parsed(client, launch={"command": COMMAND})

    assert told["framework"] == "transformers"
    assert told["job"]["micro_batch_size"] == 1
    assert told["provenance"]["micro_batch_size"] == {
        "value": 1,
        "from": "args[13] --per_device_train_batch_size",
    }
    assert told["job"]["hardware"]["devices"] == 16
    assert told["problems"] == told["unknown"] == []


async def test_every_field_of_a_whole_job_has_its_place(client: httpx.AsyncClient) -> None:
    told = await parsed(client, launch={"command": COMMAND})

    said = {
        f"{part}.{name}" if isinstance(value, dict) else part
        for part, value in told["job"].items()
        if value is not None
        for name in (value if isinstance(value, dict) else [part])
        if not isinstance(value, dict) or value[name] is not None
    }
    shown = {".".join(field.split(".")[:2]) for field in told["provenance"]}
    assert {field for field in said if not field.startswith("sharding.buckets")} <= shown
    assert told["provenance"]["optimizer.name"]["from"] == "transformers default"


async def test_hardware_of_the_request_wins(client: httpx.AsyncClient) -> None:
    told = await parsed(
        client,
        launch={"script": SCRIPT, "files": {"ds.json": DS}},
        hardware={"accelerator": "h200"},
    )

    assert told["job"]["hardware"]["accelerator"] == "h200"
    assert told["provenance"]["hardware.accelerator"]["from"] == "hardware of the request"


async def test_a_file_that_did_not_come_is_named_and_its_fields_left_out(
    client: httpx.AsyncClient,
) -> None:
    told = await parsed(client, launch={"command": f"{COMMAND} --deepspeed ds_z9.json"})

    assert told["missing_files"] == ["ds_z9.json"]
    assert "sharding" in {one["field"] for one in told["unknown"]}
    assert (told["job"]["sharding"] or {}).get("zero_stage") is None


PYTORCHJOB = f"""\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: pretrain}}
spec:
  nprocPerNode: "8"
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          nodeSelector: {{nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}}
          containers:
            - name: pytorch
              image: example/trainer:1
              command: [bash, -c, "{COMMAND} --deepspeed ds.json"]
              resources: {{limits: {{nvidia.com/gpu: 8}}}}
"""
ONE_JOB = {
    "model": {"name": "meta-llama/Llama-3.1-8B"},
    "task": "pretrain",
    "precision": "bf16-master",
    "micro_batch_size": 1,
    "sequence_length": 4096,
    "gradient_accumulation_steps": 4,
    "packing": "packed",
    "activation_checkpointing": "full",
    "attention": "sdpa",
    # DeepSpeed's own buckets: the file says none, and "auto" is not written.
    "sharding": {
        "implementation": "deepspeed",
        "zero_stage": 3,
        "buckets": {"reduce_elements": 500_000_000, "prefetch_elements": 50_000_000},
    },
    "hardware": {"accelerator": "a100-sxm4-80gb", "devices": 16, "devices_per_node": 8},
    "software": {"framework": "transformers"},
}
"""What the script and the PyTorchJob start, written by hand in the interface's own words."""


@pytest.mark.parametrize("launch", [{"script": SCRIPT}, {"manifest": PYTORCHJOB}])
async def test_an_estimate_of_a_launch_is_that_of_the_job_it_is(
    client: httpx.AsyncClient, launch: dict[str, str]
) -> None:
    body = {"launch": {**launch, "files": {"ds.json": DS}}}
    of_launch = (await client.post(ESTIMATES, json=body)).json()
    of_job = (await client.post(ESTIMATES, json={"job": ONE_JOB})).json()
    # Each names the card in the words it has for it.
    of_launch["job"]["hardware"]["accelerator"] = of_launch["capacity"]["accelerator"]

    same = ("model", "peak", "bill", "timeline", "host_bytes", "capacity", "fits", "job")
    assert {name: of_launch[name] for name in same} == {name: of_job[name] for name in same}
    assert of_launch["launch"]["provenance"]["sharding.zero_stage"] == {
        "value": 3,
        "from": "ds.json: zero_optimization.stage",
    }
    assert of_job["launch"] is None


async def test_an_estimate_of_a_launch_that_hides_something_is_refused(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.post(
        ESTIMATES, json={"launch": {"command": f"{COMMAND} --deepspeed $CONFIG"}}
    )

    assert (answer.status_code, answer.json()["code"]) == (422, "incomplete_launch")
    assert "$CONFIG" in answer.json()["detail"]


async def test_an_invalid_launch_is_an_invalid_job(client: httpx.AsyncClient) -> None:
    launch = {"command": f"{COMMAND} --fp16"}
    (problem,) = (await parsed(client, launch=launch))["problems"]
    refusal = (await client.post(ESTIMATES, json={"launch": launch})).json()

    assert (problem["code"], problem["rule"]) == ("invalid_job", "fp16_with_bf16")
    assert problem["fix"]
    assert (refusal["code"], refusal["errors"][0]["code"]) == ("invalid_job", "fp16_with_bf16")


async def test_a_job_s_own_rules_name_the_place_in_the_launch(client: httpx.AsyncClient) -> None:
    launch = {"command": COMMAND.replace("--bf16", "--use_peft --lora_target_modules nothing_here")}
    told = await parsed(client, launch=launch)

    assert [one["rule"] for one in told["problems"]] == ["no_match"]
    assert "--lora_target_modules" in told["problems"][0]["detail"]


async def test_a_value_out_of_bounds_is_a_problem_of_the_launch(client: httpx.AsyncClient) -> None:
    launch = {"command": COMMAND.replace("_batch_size 1", "_batch_size 0")}
    (problem,) = (await parsed(client, launch=launch))["problems"]

    assert problem["field"] == "micro_batch_size"
    assert problem["values"] == {"args[13] --per_device_train_batch_size": 0}


@pytest.mark.parametrize(
    ("launch", "line"),
    [
        ({"framework": "axolotl", "config": "a: 1\na: 2"}, 2),
        ({"framework": "axolotl", "config": "a:\n\t- 1"}, 2),
        ({"framework": "deepspeed", "config": '{"a": 1, // no\n}'}, 1),
        (
            {
                "command": f"{COMMAND} --deepspeed ds.json",
                "files": {
                    "ds.json": '{\n// no comments in JSON\n"zero_optimization": {"stage": 3}}'
                },
            },
            2,
        ),
        ({"script": "#!/bin/bash\necho 'open\n"}, 2),
    ],
)
async def test_text_that_cannot_be_read_is_refused_with_its_line(
    client: httpx.AsyncClient, launch: dict[str, Any], line: int
) -> None:
    answer = await client.post(PARSE, json={"launch": launch})

    assert (answer.status_code, answer.json()["code"]) == (422, "unreadable_launch")
    assert answer.json()["line"] == line


async def test_a_file_sent_ahead_stands_for_its_text(client: httpx.AsyncClient) -> None:
    address = f"{FILES}/{digest_of(DS)}"
    assert (await client.get(address)).status_code == 404
    first, again = [await client.put(address, content=DS) for _ in range(2)]
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["bytes"] == len(DS)
    assert (await client.get(address)).json()["sha256"] == digest_of(DS)

    by_digest = {"script": SCRIPT, "files": {"ds.json": {"sha256": digest_of(DS)}}}
    inline = {"script": SCRIPT, "files": {"ds.json": DS}}
    assert await parsed(client, launch=by_digest) == await parsed(client, launch=inline)
    body = {"items": [{"launch": by_digest}, {"launch": inline}]}
    first_item, second_item = (await client.post(f"{ESTIMATES}/batch", json=body)).json()["items"]
    assert first_item == second_item
    assert "estimate" in first_item


async def test_a_digest_of_no_file_is_refused(client: httpx.AsyncClient) -> None:
    files = {"ds.json": {"sha256": "0" * 64}}
    answer = await client.post(PARSE, json={"launch": {"script": SCRIPT, "files": files}})

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/launch/files/ds.json/sha256"


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"other text", 422),
        (b"\xff\xfe", 422),
        (b"a\0b", 422),
        (b"x" * (MAX_LAUNCH_TEXT + 1), 413),
    ],
)
async def test_a_body_that_is_not_the_file_is_refused(
    client: httpx.AsyncClient, content: bytes, status: int
) -> None:
    digest = digest_of("text") if content == b"other text" else hashlib.sha256(content).hexdigest()
    answer = await client.put(f"{FILES}/{digest}", content=content)

    assert answer.status_code == status, answer.text
    assert (await client.get(f"{FILES}/{digest}")).status_code == 404


async def test_a_name_that_is_no_digest_is_refused(client: httpx.AsyncClient) -> None:
    answer = await client.put(f"{FILES}/{'A' * 64}", content=b"x")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_parameter")


async def test_a_reported_launch_becomes_the_job_it_says(client: httpx.AsyncClient) -> None:
    report = {
        "run_id": "r1",
        "launch": {
            "command": ["run_clm.py", *COMMAND.split()[6:]],
            "env": {"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"},
        },
        "outcome": "completed",
        "accelerator": "NVIDIA A100-SXM4-80GB",
        "software": {"torch": "2.6.0", "transformers": "4.51.0"},
        "measured": {"max_allocated_bytes": 60_000_000_000},
    }
    told = await parsed(client, launch={"command": COMMAND})
    job = {name: value for name, value in told["job"].items() if value is not None}
    job["software"] = {"framework": "transformers", "stack": "torch 2.6.0 / transformers 4.51.0"}
    job["hardware"] = {"accelerator": "a100-sxm4-80gb", "devices": 16, "devices_per_node": 8}
    for field in ("optimizer", "activation_checkpointing"):
        job.pop(field)  # left to the versions, as the launch leaves them
    job["activation_checkpointing"] = {"mode": "full"}

    (item,) = (await client.post("/v1/reports", json={"reports": [report]})).json()["items"]
    of_job = (await client.post(ESTIMATES, json={"job": job})).json()

    assert item["reasons"] == []
    residual = item["residuals"]["allocated"]
    assert residual["estimated_bytes"] == of_job["peak"]["allocated_bytes"]


async def test_a_reported_launch_without_a_job_is_quarantined_with_the_reason(
    client: httpx.AsyncClient,
) -> None:
    report = {
        "run_id": "r2",
        "launch": {"command": ["my_loop.py", "--size", "big"]},
        "outcome": "completed",
        "measured": {"max_allocated_bytes": 60_000_000_000},
    }
    (item,) = (await client.post("/v1/reports", json={"reports": [report]})).json()["items"]

    assert item["status"] == "quarantined"
    assert [one["code"] for one in item["reasons"]] == ["job_unknown"]
    assert "model" in item["reasons"][0]["message"]


async def test_a_job_beside_a_launch_is_refused(client: httpx.AsyncClient) -> None:
    answer = await client.post(
        ESTIMATES,
        content=json.dumps({"job": a_job(), "launch": {"command": COMMAND}}),
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code == 422
