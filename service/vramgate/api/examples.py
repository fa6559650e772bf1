"""Requests as the OpenAPI document shows them."""

from fastapi.openapi.models import Example

ESTIMATE: dict[str, Example] = {
    "lora": {
        "summary": "LoRA on an 8B model, one card",
        "value": {
            "job": {
                "model": {"name": "meta-llama/Llama-3.1-8B"},
                "method": {"kind": "lora", "rank": 16, "target_modules": "all-linear"},
                "precision": "bf16-true",
                "micro_batch_size": 2,
                "sequence_length": 2048,
                "activation_checkpointing": "full",
                "hardware": {"accelerator": "a100-sxm4-80gb"},
            }
        },
    },
    "zero": {
        "summary": "Full training under ZeRO stage 3, two nodes",
        "value": {
            "job": {
                "model": {"name": "Qwen/Qwen2.5-32B"},
                "method": "full",
                "precision": "bf16-master",
                "optimizer": "adamw",
                "micro_batch_size": 1,
                "sequence_length": 4096,
                "activation_checkpointing": "full",
                "sharding": {"implementation": "deepspeed", "zero_stage": 3},
                "hardware": {"accelerator": "h100-sxm5-80gb", "devices": 16},
            },
            "risk": 0.01,
        },
    },
}

LAUNCHES: dict[str, Example] = {
    "slurm": {
        "summary": "A batch script and the DeepSpeed file it names",
        "value": {
            "launch": {
                "script": "#!/bin/bash\n"
                "#SBATCH --nodes=2\n"
                "#SBATCH --gres=gpu:a100:8\n"
                "srun torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 \\\n"
                "  run_clm.py --model_name_or_path meta-llama/Llama-3.1-8B --bf16 \\\n"
                "  --block_size 4096 --per_device_train_batch_size 1 --deepspeed ds.json\n",
                "files": {
                    "ds.json": '{"bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 3}}'
                },
            }
        },
    },
    "pytorchjob": {
        "summary": "A PyTorchJob, on a card the caller names",
        "value": {
            "launch": {
                "manifest": {
                    "apiVersion": "kubeflow.org/v1",
                    "kind": "PyTorchJob",
                    "metadata": {"name": "sft"},
                    "spec": {
                        "nprocPerNode": "8",
                        "pytorchReplicaSpecs": {
                            "Worker": {
                                "replicas": 1,
                                "template": {
                                    "spec": {
                                        "containers": [
                                            {
                                                "name": "pytorch",
                                                "image": "example/trl:0.26",
                                                "command": ["torchrun", "sft.py"],
                                                "args": [
                                                    "--model_name_or_path",
                                                    "Qwen/Qwen2.5-7B",
                                                    "--max_length",
                                                    "2048",
                                                    "--per_device_train_batch_size",
                                                    "2",
                                                ],
                                                "resources": {"limits": {"nvidia.com/gpu": 8}},
                                            }
                                        ]
                                    }
                                },
                            }
                        },
                    },
                }
            },
            "hardware": {"accelerator": "h100-sxm5-80gb"},
        },
    },
    "axolotl": {
        "summary": "A framework's configuration",
        "value": {
            "launch": {
                "framework": "axolotl",
                "config": "base_model: NousResearch/Llama-3.2-1B\n"
                "adapter: lora\nlora_r: 16\nlora_alpha: 32\nlora_target_linear: true\n"
                "sequence_len: 2048\nsample_packing: true\nmicro_batch_size: 2\n"
                "gradient_accumulation_steps: 2\nbf16: auto\noptimizer: adamw_8bit\n"
                "gradient_checkpointing: true\n",
            }
        },
    },
}

BATCH: dict[str, Example] = {
    "two": {
        "summary": "Two jobs at once",
        "value": {"items": [example["value"] for example in ESTIMATE.values()]},
    }
}

ADMIT: dict[str, Example] = {
    "job": {
        "summary": "A job in a queue of Slurm's",
        "value": {
            "job": {
                "model": {"name": "meta-llama/Llama-3.1-8B"},
                "method": "full",
                "precision": "bf16-true",
                "optimizer": "adamw",
                "micro_batch_size": 4,
                "sequence_length": 4096,
                "hardware": {"accelerator": "a100-sxm4-80gb"},
            },
            "cluster": "alps",
            "queue": "a100",
            "channel": "slurm",
            "submitter": "alice",
            "external_id": "4711",
        },
    },
    "devices": {
        "summary": "Which of these cards can take it now",
        "value": {
            "job": {
                "model": {"name": "Qwen/Qwen2.5-7B"},
                "method": {"kind": "qlora", "rank": 16, "target_modules": "all-linear"},
                "micro_batch_size": 1,
                "sequence_length": 2048,
                "software": {"framework": "trl"},
            },
            "devices": [
                {
                    "id": "GPU-0",
                    "accelerator": "NVIDIA A100-SXM4-40GB",
                    "total_bytes": 42949672960,
                    "used_bytes": 30000000000,
                },
                {
                    "id": "GPU-1",
                    "accelerator": "NVIDIA A100-SXM4-40GB",
                    "total_bytes": 42949672960,
                    "used_bytes": 0,
                },
            ],
            "dry_run": True,
        },
    },
}

REPLAY: dict[str, Example] = {
    "own": {"summary": "Under the policy it was made under", "value": {}},
    "active": {
        "summary": "Under the policy of today",
        "value": {"policy_version": "active"},
    },
}

REPORTS: dict[str, Example] = {
    "completed": {
        "summary": "A completed run on one card",
        "value": {
            "reports": [
                {
                    "run_id": "slurm-4711",
                    "rank": 0,
                    "job": {
                        "model": {"name": "meta-llama/Llama-3.1-8B"},
                        "method": {"kind": "lora", "rank": 16, "target_modules": "all-linear"},
                        "precision": "bf16-true",
                        "micro_batch_size": 2,
                        "sequence_length": 2048,
                        "activation_checkpointing": "full",
                        "hardware": {"accelerator": "a100-sxm4-80gb"},
                    },
                    "outcome": "completed",
                    "measured": {
                        "max_allocated_bytes": 22_500_000_000,
                        "max_reserved_bytes": 24_800_000_000,
                    },
                    "accelerator": "NVIDIA A100-SXM4-80GB",
                    "accelerator_total_bytes": 85_097_971_712,
                    "warmup_excluded": True,
                    "step_seconds": 1.9,
                }
            ]
        },
    },
}

RELEASE: dict[str, Example] = {
    "checked": {
        "summary": "Somebody looked at the run",
        "value": {"reason": "The trainer logged the padded length; checked with the team."},
    }
}

MODEL: dict[str, Example] = {
    "config": {
        "summary": "A model of one's own, by its config.json (PUT /v1/models/acme/titan-1b)",
        "value": {
            "name": "acme/titan-1b",
            "aliases": ["titan"],
            "config": {
                "model_type": "llama",
                "architectures": ["LlamaForCausalLM"],
                "hidden_size": 2048,
                "num_hidden_layers": 16,
                "num_attention_heads": 32,
                "num_key_value_heads": 8,
                "intermediate_size": 8192,
                "vocab_size": 128256,
                "tie_word_embeddings": True,
            },
        },
    },
    "count": {
        "summary": "A rough one, by its parameters (PUT /v1/models/acme/titan-40b)",
        "value": {"name": "acme/titan-40b", "parameters": 40_000_000_000},
    },
}

ACCELERATOR: dict[str, Example] = {
    "own": {
        "summary": "A card the catalog does not know (PUT /v1/accelerators/a100-sxm4-64gb)",
        "value": {
            "name": "a100-sxm4-64gb",
            "aliases": ["NVIDIA A100-SXM-64GB"],
            "vendor": "NVIDIA",
            "architecture": "Ampere",
            "compute_capability": "8.0",
            "memory_bytes_nominal": 68_719_476_736,
        },
    },
    "known": {
        "summary": "A known card with less to use (PUT /v1/accelerators/a40)",
        "value": {"name": "a40", "usable_bytes": 47_000_000_000},
    },
}

POLICY: dict[str, Example] = {
    "careful": {
        "summary": "Warn everywhere, and let callers ask to be only watched",
        "value": {
            "policy": {"mode": "warn", "caller_may_choose": ["shadow"], "risk": 0.01},
            "note": "The first month.",
        },
    },
    "enforcing": {
        "summary": "Refuse in production, with one exemption and somebody on call",
        "value": {
            "policy": {
                "mode": "warn",
                "capacity": {
                    "queues": {"a100": "a100-sxm4-80gb"},
                    "node_labels": {
                        "nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3": "h100-sxm5-80gb"
                    },
                },
                "rules": [
                    {"name": "prod", "queue": "prod-*", "mode": "enforce", "risk": 0.005},
                    {"name": "notebooks", "channel": "kubernetes", "queue": "nb-*", "mode": "off"},
                ],
                "exemptions": [
                    {
                        "name": "ablation",
                        "submitter": "alice",
                        "queue": "prod-a100",
                        "until": "2026-12-24T00:00:00Z",
                        "reason": "Runs near the limit, watched.",
                    }
                ],
                "break_glass": {"submitters": ["oncall-*"]},
            },
            "note": "Shadow report of November: no false denial in prod.",
        },
    },
}

LINT: dict[str, Example] = {
    "late": {
        "summary": "A rule that never counts",
        "value": {
            "policy": {
                "rules": [
                    {"name": "all of prod", "queue": "prod-*", "mode": "enforce"},
                    {"name": "prod tests", "queue": "prod-test", "mode": "shadow"},
                ]
            }
        },
    }
}
