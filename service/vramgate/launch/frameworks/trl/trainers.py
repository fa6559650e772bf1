"""TRL's trainers: by the name of a command or script, or by the fields of a configuration.

Sources: TRL 1.16.0 ``cli/commands``, ``scripts``, ``examples/scripts``; the alignment handbook's
``scripts``. The fields tell a configuration's class: none of them stands in another's.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from vramgate.costmodel.job import Task
from vramgate.launch.settings import Settings

_GENERATES = "it trains on what it generates, which no task of a job has"
_OTHER = "its loss is none that a job has"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trainer:
    """One of TRL's trainers; ``reason`` says why no task stands for it."""

    name: str
    task: Task | None = None
    reason: str = ""
    generates: bool = False


SFT = Trainer(name="sft", task=Task.SFT)
DPO = Trainer(name="dpo", task=Task.DPO)
KTO = Trainer(name="kto", task=Task.KTO)
REWARD = Trainer(name="reward", task=Task.REWARD)
_TRAINERS: Mapping[str, Trainer] = {
    "sft": SFT,
    "dpo": DPO,
    "kto": KTO,
    "reward": REWARD,
    "reward_modeling": REWARD,
    "orpo": Trainer(name="orpo", task=Task.ORPO),
    "cpo": Trainer(name="cpo", reason=_OTHER),
    "bco": Trainer(name="bco", reason=_OTHER),
    "tpo": Trainer(name="tpo", reason=_OTHER),
    "prm": Trainer(name="prm", task=Task.CLASSIFICATION),
    **{
        name: Trainer(name=name, reason=_GENERATES, generates=True)
        for name in (
            "grpo",
            "rloo",
            "ppo",
            "ppo_tldr",
            "online_dpo",
            "nash_md",
            "xpo",
            "gkd",
            "gold",
            "gspo",
            "distillation",
            "async_grpo",
            "sdft",
            "sdpo",
        )
    },
}
_UNKNOWN = Trainer(name="", reason="which of TRL's trainers runs is not visible")
_FILE_PARTS = ("_vlm", "_gemma3", "_gpt_oss", "_llm")


def trainer_named(name: str) -> Trainer:
    """Return the trainer of a command, script or module: ``sft``, ``run_dpo.py``, ``trl.scripts.kto``.

    >>> trainer_named("run_sft.py").task.value, trainer_named("trl.scripts.grpo").task
    ('sft', None)
    """
    word = name.rpartition("/")[2].removesuffix(".py").rpartition(".")[2].lower()
    word = word.removeprefix("run_").removeprefix("train_")
    for part in _FILE_PARTS:
        word = word.removesuffix(part)
    first = word.partition("_")[0]
    return _TRAINERS.get(word) or _TRAINERS.get(first) or _UNKNOWN


_BY_FIELD: tuple[tuple[Trainer, frozenset[str]], ...] = (
    (_TRAINERS["grpo"], frozenset({"num_generations", "steps_per_generation"})),
    (KTO, frozenset({"desirable_weight", "undesirable_weight"})),
    (REWARD, frozenset({"center_rewards_coefficient"})),
    (
        DPO,
        frozenset(
            {
                "f_divergence_type",
                "reference_free",
                "rpo_alpha",
                "ld_alpha",
                "use_weighting",
                "discopop_tau",
            }
        ),
    ),
    (
        SFT,
        frozenset(
            {
                "packing",
                "packing_strategy",
                "eval_packing",
                "assistant_only_loss",
                "completion_only_loss",
                "dataset_text_field",
                "max_seq_length",
            }
        ),
    ),
)
"""Fields that stand in one class of configurations alone (those of GRPO and RLOO count as one)."""


def trainer_of(settings: Settings) -> Trainer:
    """Return the trainer whose configuration has these fields; some have fields of several."""
    for trainer, names in _BY_FIELD:
        if any(name in settings for name in names):
            return trainer
    return _UNKNOWN
