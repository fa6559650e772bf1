"""How long it takes to read a launch, beside reading its YAML alone."""

import yaml

from tests.bench.harness import Comparison, timing
from vramgate.launch.launch import Launch
from vramgate.launch.read import read_launch

COMMAND_BYTES = 4 * 2**10
BUDGET_SECONDS = 0.002
MANIFESTS = 1000

_MANIFEST = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: sft, namespace: research, labels: {{kueue.x-k8s.io/queue-name: gpus}}}}
spec:
  nprocPerNode: "8"
  pytorchReplicaSpecs:
    Master: &replica
      replicas: 1
      restartPolicy: OnFailure
      template:
        spec:
          nodeSelector: {{nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}
          containers:
            - name: pytorch
              image: example/trainer:1.0
              env:
                - {{name: MODEL, value: meta-llama/Llama-3.1-8B}}
                - {{name: RUN, value: "{run}"}}
              command: [bash, -c]
              args:
                - |
{command}
              resources: {{limits: {{nvidia.com/gpu: 8, cpu: 96, memory: 1000Gi}}}}
    Worker:
      <<: *replica
      replicas: 3
"""
_COMMAND = """\
set -euo pipefail
cd /workspace && pip install -e .
export OUTPUT=/shared/runs/${RUN}
ARGS=(
  --model_name_or_path $MODEL --bf16 True --torch_dtype bfloat16 --attn_implementation sdpa
  --block_size 4096 --per_device_train_batch_size 1 --gradient_accumulation_steps 8
  --gradient_checkpointing True --optim adamw_torch_fused --output_dir $OUTPUT
)
torchrun --nnodes $PET_NNODES --nproc_per_node 8 run_clm.py "${ARGS[@]}" \\
"""


def _manifest(repeat: int) -> str:
    """Return a manifest that no cache has seen, with a command of 4 KiB."""
    command, number = _COMMAND, 0
    while len(command) < COMMAND_BYTES - 60:
        command += f"  --dataset_name shard-{number} --logging_steps {number} \\\n"
        number += 1
    command += "  --seed 1 2>&1 | tee ${OUTPUT}/log.txt\n"
    indented = "".join(f"                  {line}\n" for line in command.splitlines())
    return _MANIFEST.format(run=repeat, command=indented.rstrip("\n"))


def reading_a_launch() -> Comparison:
    """Compare the reading of a PyTorchJob with the loading of its YAML by PyYAML."""
    manifests = [_manifest(repeat) for repeat in range(MANIFESTS)]
    return Comparison(
        title=f"Reading a PyTorchJob with a command of {COMMAND_BYTES // 1024} KiB",
        unit="manifest",
        timings=[
            timing("yaml.safe_load", lambda repeat: yaml.safe_load(manifests[repeat % MANIFESTS])),
            timing(
                "read_launch",
                lambda repeat: read_launch(Launch(manifest=manifests[repeat % MANIFESTS])),
                budget_seconds=BUDGET_SECONDS,
            ),
        ],
    )
