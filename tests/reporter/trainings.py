"""Small real trainings on the CPU, and a meter that stands in for the allocator it has not."""

from pathlib import Path
from typing import Any

from vramgate.reporter.measure import Device, Peaks

VOCABULARY = 256
LENGTH = 32


class StepMeter:
    """A memory source of figures that are plainly not measured: 1 GiB, growing a little."""

    def __init__(self) -> None:
        self.reads = 0

    def reset_peaks(self) -> None:
        """Begin anew."""

    def peaks(self) -> Peaks | None:
        """Return a peak that rises with every look, so that each look is a report."""
        self.reads += 1
        return Peaks(max_allocated_bytes=2**30 + self.reads, max_reserved_bytes=2**31)

    def device(self) -> Device | None:
        """Return a card that nobody has."""
        return Device(name="Stand-in", total_bytes=2**34)


def tiny_llama(transformers: Any, hidden_size: int = 64) -> Any:
    """Return a randomly initialised Llama of two layers."""
    config = transformers.LlamaConfig(
        hidden_size=hidden_size,
        intermediate_size=2 * hidden_size,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=VOCABULARY,
        max_position_embeddings=LENGTH,
    )
    return transformers.LlamaForCausalLM(config)


def rows(torch: Any, count: int = 64) -> list[dict[str, Any]]:
    """Return rows of random tokens."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, VOCABULARY, (count, LENGTH), generator=generator)
    return [{"input_ids": row, "labels": row} for row in tokens]


def a_trainer(
    output: Path,
    callbacks: list[Any],
    *,
    steps: int,
    hidden_size: int = 64,
    model: Any = None,
) -> Any:
    """Return transformers' own Trainer over a tiny model."""
    import torch  # noqa: PLC0415
    import transformers  # noqa: PLC0415

    arguments = transformers.TrainingArguments(
        output_dir=str(output),
        max_steps=steps,
        per_device_train_batch_size=4,
        learning_rate=1e-3,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        include_num_input_tokens_seen="all",
    )
    trainer = transformers.Trainer(
        model=tiny_llama(transformers, hidden_size) if model is None else model,
        args=arguments,
        train_dataset=rows(torch),
        callbacks=callbacks,
    )
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


def plain_loop(peaks: Any, *, steps: int, hidden_size: int = 64) -> float:
    """Train in a plain loop and return the last loss; ``peaks`` may be None."""
    import torch  # noqa: PLC0415
    import transformers  # noqa: PLC0415

    model = tiny_llama(transformers, hidden_size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = rows(torch)
    loss = torch.tensor(0.0)
    for step in range(steps):
        chosen = [data[(4 * step + one) % len(data)]["input_ids"] for one in range(4)]
        batch = torch.stack(chosen)
        loss = model(input_ids=batch, labels=batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if peaks is not None:
            peaks.step(tokens=batch.numel())
    return float(loss)
