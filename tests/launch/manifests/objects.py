"""Manifests to change at random: one of each kind that is read, with every part that a reader looks at."""

from typing import Any

POD: dict[str, Any] = {
    "metadata": {"annotations": {"gpu-fraction": "0.5", "vramgate.dev/seq-len": "4096"}},
    "spec": {
        "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {
                                    "key": "nvidia.com/gpu.memory",
                                    "operator": "Gt",
                                    "values": ["40000"],
                                }
                            ]
                        }
                    ]
                }
            }
        },
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
        "volumes": [{"name": "config", "configMap": {"name": "settings"}}],
        "containers": [
            {
                "name": "pytorch",
                "image": "pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime",
                "command": ["python", "train.py"],
                "args": ["--model_name_or_path", "$(MODEL)", "--bf16"],
                "env": [
                    {"name": "MODEL", "value": "meta-llama/Llama-3.1-8B"},
                    {
                        "name": "TOKEN",
                        "valueFrom": {"secretKeyRef": {"name": "tokens", "key": "hub"}},
                    },
                    {
                        "name": "POD",
                        "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}},
                    },
                ],
                "envFrom": [{"configMapRef": {"name": "settings"}, "prefix": "X_"}],
                "resources": {
                    "limits": {"nvidia.com/gpu": 8, "nvidia.com/gpumem": 4000},
                    "requests": {"nvidia.com/gpu": "8"},
                    "claims": [{"name": "gpu"}],
                },
                "volumeMounts": [{"name": "config", "mountPath": "/etc/settings"}],
            }
        ],
    },
}
_BESIDE: list[dict[str, Any]] = [
    {
        "kind": "ConfigMap",
        "metadata": {"name": "settings"},
        "data": {"ds.json": '{"zero_optimization": {"stage": 3}}'},
    },
    {
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one-gpu"},
        "spec": {
            "spec": {
                "devices": {
                    "requests": [
                        {
                            "name": "gpu",
                            "exactly": {
                                "deviceClassName": "gpu.nvidia.com",
                                "count": 2,
                                "selectors": [
                                    {
                                        "cel": {
                                            "expression": "device.attributes['gpu.nvidia.com']"
                                            ".productName == 'NVIDIA L4'"
                                        }
                                    }
                                ],
                            },
                        }
                    ]
                }
            }
        },
    },
]


def _object(kind: str, spec: dict[str, Any], version: str = "v1") -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "run"}, "spec": spec}


_JOB = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": POD}
_REPLICAS = {
    "Master": {"replicas": 1, "template": POD},
    "Worker": {"replicas": 3, "template": POD},
}
_CLUSTER = {
    "enableInTreeAutoscaling": True,
    "headGroupSpec": {"rayStartParams": {"num-gpus": "0"}, "template": POD},
    "workerGroupSpecs": [
        {"groupName": "w", "replicas": 1, "maxReplicas": 4, "numOfHosts": 2, "template": POD}
    ],
}
_TRAIN_JOB = {
    "runtimeRef": {"name": "torchtune-llama3.2-1b"},
    "initializer": {"model": {"storageUri": "hf://meta-llama/Llama-3.2-1B-Instruct"}},
    "trainer": {
        "numNodes": 1,
        "numProcPerNode": 2,
        "command": ["tune", "run"],
        "args": ["batch_size=4"],
        "env": [{"name": "A", "value": "b"}],
        "resourcesPerNode": {"limits": {"nvidia.com/gpu": 2}},
    },
    "runtimePatches": [
        {
            "trainingRuntimeSpec": {
                "template": {
                    "spec": {
                        "replicatedJobs": [
                            {
                                "name": "node",
                                "template": {"spec": {"template": {"spec": POD["spec"]}}},
                            }
                        ]
                    }
                }
            }
        }
    ],
}

MANIFESTS: list[dict[str, Any]] = [
    {"kind": "List", "items": [one, *_BESIDE]}
    for one in (
        _object("Pod", POD["spec"]) | {"metadata": POD["metadata"]},
        _object("Job", _JOB, "batch/v1"),
        _object("CronJob", {"jobTemplate": {"spec": _JOB}}, "batch/v1"),
        _object("StatefulSet", {"replicas": 2, "template": POD}, "apps/v1"),
        _object(
            "PyTorchJob",
            {
                "nprocPerNode": "8",
                "elasticPolicy": {"minReplicas": 1, "maxReplicas": 3},
                "pytorchReplicaSpecs": _REPLICAS,
            },
        ),
        _object("MPIJob", {"slotsPerWorker": 8, "mpiReplicaSpecs": _REPLICAS}),
        _object("TrainJob", _TRAIN_JOB),
        _object(
            "JobSet", {"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": _JOB}}]}
        ),
        _object(
            "RayJob",
            {
                "entrypoint": "python train.py --bf16",
                "runtimeEnvYAML": "env_vars: {A: b}",
                "metadata": {"vramgate/seq-len": "4096"},
                "rayClusterSpec": _CLUSTER,
            },
        ),
        _object(
            "Job",
            {
                "plugins": {"pytorch": []},
                "tasks": [{"name": "master", "replicas": 1, "template": POD}],
            },
            "batch.volcano.sh/v1alpha1",
        ),
        _object(
            "LeaderWorkerSet",
            {"leaderWorkerTemplate": {"size": 2, "leaderTemplate": POD, "workerTemplate": POD}},
        ),
    )
]
