"""A tape of tensor lifetimes: what autograd keeps, frees and needs for a moment, in bytes and nothing else.

A block is written once, as the framework's modeling code is written: a sequence of operations on tensors. The tape
counts what is alive while they run forward, remembers what each operation saves, and replays them backward in the
engine's order (reverse creation). Peaks, saved bytes and the share of every component fall out of the same list.

Sizes are ``Count``: plain integers for one job, int64 arrays for many jobs of one shape.

Source of the rules: PyTorch ``derivatives.yaml`` and the autograd engine, read off exact traces of torch 2.13
(``data/oracle_rows.jsonl``).
"""

from collections.abc import Callable
from typing import Any

from vramgate.costmodel.breakdown import Component
from vramgate.units import Bytes, Count, largest

TEMPORARY = 0
ACTIVATION = 1
GRADIENT = 2
LOGITS = 3
CAST = 4
DEQUANTIZED = 5
CATEGORIES = 6

COMPONENT_OF = {
    TEMPORARY: Component.TEMPORARIES,
    ACTIVATION: Component.ACTIVATIONS,
    GRADIENT: Component.GRADIENTS,
    LOGITS: Component.LOGITS,
    CAST: Component.AUTOCAST_CACHE,
    DEQUANTIZED: Component.DEQUANTIZATION,
}


class Gradient:
    """The gradient of a tensor while it waits; several tensors may share one buffer (addition passes it on).

    The tape gives its arguments by position, as a tensor's: Python builds a dict of keywords for every new object.
    """

    __slots__ = ("category", "is_view", "owners", "size")

    def __init__(self, size: Bytes, category: int, is_view: bool) -> None:  # noqa: FBT001
        self.size = size
        self.owners = 1
        self.is_view = is_view
        self.category = category


class Tensor:
    """A tensor of ``elements`` numbers of ``width`` bytes, alive while it has holders.

    A holder is a name in the running code or an operation that saved it. ``base`` is the tensor whose storage a view
    shares.
    """

    __slots__ = (
        "base",
        "category",
        "elements",
        "gradient",
        "holders",
        "requires_grad",
        "saves",
        "shard",
        "size",
        "width",
    )

    def __init__(
        self,
        elements: Count,
        width: int,
        category: int,
        requires_grad: bool,  # noqa: FBT001
    ) -> None:
        self.elements = elements
        self.width = width
        self.size = elements * width
        self.category = category
        self.holders = 1
        self.saves = 0
        """How many of the holders are operations that saved it, in forward."""
        self.requires_grad = requires_grad
        self.gradient: Gradient | None = None
        self.base: Tensor | None = None
        self.shard: Tensor | None = None
        """What is saved in this tensor's place: the shard it is gathered from."""


Backward = Callable[..., None]


class Tape:
    """Counts bytes while operations run; see the module's docstring.

    ``width`` is the bytes of an element of the residual stream; with ``autocast``, matrix products run at
    ``compute_width``.
    """

    def __init__(self, *, autocast: bool, compute_width: int, recording: bool = True) -> None:
        self.live: Bytes = 0
        self.peak: Bytes = 0
        self.by: list[Bytes] = [0] * CATEGORIES
        self.peak_by: list[Bytes] = [0] * CATEGORIES
        self.counts_unsaved = False
        """Whether the same forward is counted where nothing is saved too (``no_grad``): so a checkpointed block runs
        first. A tensor lives as long as its names there: ``only_saved`` is gone."""
        self.only_saved: list[Bytes] = [0] * CATEGORIES
        """What no name holds any more, only operations that saved it."""
        self.only_saved_bytes: Bytes = 0
        self.unsaved_peak: Bytes = 0
        nothing: list[Bytes] = [0] * CATEGORIES
        self._at_unsaved_peak = nothing, nothing
        """What was alive then, and what of it was only saved."""
        self.operations: list[tuple[Any, ...]] = []
        self.recording = recording
        self.autocast = autocast
        self.compute_width = compute_width
        self.category = TEMPORARY
        """What new tensors and gradients count as until they are saved or kept."""
        self.reached_by: list[Bytes] = self.peak_by
        self.reached: Bytes = 0
        """The peak when the last tensor was saved: how far an early-stopping recomputation goes."""
        self.accumulating = False
        """Parameter gradients exist already: new ones are added in place and freed."""
        self.saves_quantized_inputs = False
        """bitsandbytes before 0.43.2: 4-bit products keep their inputs though nothing needs them."""
        self.saves_unpacked_weights = False
        """GPTQ layers unpack their weights in PyTorch operations: autograd keeps them unpacked."""
        self.quantized_inputs: dict[Tensor, Bytes] = {}
        """Bytes of the distinct inputs of 4-bit products that nothing but the product keeps."""
        self.products: list[Bytes] = []
        """Sizes of the outputs of weight products, in order: what per-op selective checkpointing chooses from."""
        self.attention_bytes: Bytes = 0
        """Output and log-sum-exp of the attention kernel."""
        self.casts: dict[object, Tensor] = {}
        self.left_to_block: list[Tensor] = []
        self.discarded: list[Tensor] = []
        """Tensors that lose their storage when forward ends and are made again from what is kept."""

    # -- storage ------------------------------------------------------------------------------------------------

    def allocate(self, size: Bytes, category: int = TEMPORARY) -> None:
        """Count ``size`` more bytes alive."""
        live = self.live = self.live + size
        self.by[category] += size
        if live > self.peak:
            self.peak = live
            self.peak_by = self.by.copy()
        if self.counts_unsaved:
            unsaved = live - self.only_saved_bytes
            if unsaved > self.unsaved_peak:
                self.unsaved_peak = unsaved
                self._at_unsaved_peak = self.by.copy(), self.only_saved.copy()

    def free(self, size: Bytes, category: int = TEMPORARY) -> None:
        """Count ``size`` fewer bytes alive."""
        self.live = self.live - size
        self.by[category] = self.by[category] - size

    def spike(self, size: Bytes, category: int = TEMPORARY) -> None:
        """Count bytes that live only while one operation runs."""
        self.allocate(size, category)
        self.free(size, category)

    def new(
        self,
        elements: Count,
        width: int,
        *,
        requires_grad: bool,
        category: int | None = None,
    ) -> Tensor:
        """Return a new tensor, alive and held by its name."""
        category = self.category if category is None else category
        tensor = Tensor(elements, width, category, requires_grad and self.recording)
        self.allocate(tensor.size, category)
        return tensor

    def view(self, x: Tensor, elements: Count) -> Tensor:
        """Return a view of ``elements`` of ``x``: its own gradient, no storage; it holds ``x``."""
        base = x.base or x
        view = Tensor(elements, x.width, base.category, x.requires_grad)
        view.base = base
        base.holders += 1
        return view

    def release_saved(self, tensor: Tensor) -> None:
        """Let an operation's saved tensor go."""
        self.drop(tensor.shard or tensor)

    def hold(self, tensor: Tensor) -> None:
        """Give ``tensor`` one more name."""
        (tensor.base or tensor).holders += 1

    def drop(self, *tensors: Tensor) -> None:
        """End one holder of each tensor: a name goes out of scope, or an operation lets its saved input go."""
        for named in tensors:
            tensor = named.base or named
            tensor.holders -= 1
            if tensor.holders == 0:
                self.free(tensor.size, tensor.category)
            elif self.counts_unsaved and tensor.holders == tensor.saves:
                category = tensor.category
                self.only_saved[category] = self.only_saved[category] + tensor.size
                self.only_saved_bytes = self.only_saved_bytes + tensor.size

    def save(self, tensor: Tensor) -> None:
        """Let an operation keep ``tensor`` (the whole storage where it is a view) for backward."""
        tensor = tensor.shard or tensor
        tensor = tensor.base or tensor
        tensor.holders += 1
        tensor.saves += 1
        if tensor.category == TEMPORARY:
            self.move(tensor, ACTIVATION)

    def new_saved(self, elements: Count, width: int, *, category: int | None = None) -> Tensor:
        """Return a new tensor made for backward alone, which no name holds: where nothing is saved, there is none."""
        size = elements * width
        self.only_saved_bytes = self.only_saved_bytes + size
        tensor = self.new(elements, width, requires_grad=False, category=category)
        self.only_saved_bytes = self.only_saved_bytes - size
        self.save(tensor)
        self.drop(tensor)
        return tensor

    def leave_to_block(self, tensor: Tensor) -> None:
        """Let a name live to the end of the block: what inner code returns and nobody uses."""
        self.left_to_block.append(tensor)

    def discard(self, *tensors: Tensor) -> None:
        """Let the storage of saved tensors go between forward and backward."""
        self.discarded.extend(tensor.base or tensor for tensor in tensors)

    @property
    def discarded_bytes(self) -> Bytes:
        """Bytes of discarded tensors that an operation has saved."""
        return sum(tensor.size for tensor in self.discarded if tensor.holders)

    def end_block(self) -> None:
        """Drop what was left to the block's end."""
        self.drop(*self.left_to_block)
        self.left_to_block.clear()

    def move(self, tensor: Tensor, category: int) -> None:
        """Count a tensor under another category."""
        self.by[tensor.category] = self.by[tensor.category] - tensor.size
        self.by[category] = self.by[category] + tensor.size
        tensor.category = category

    def record(self, backward: Backward, *arguments: object) -> None:
        """Remember how to run an operation backward that saved nothing."""
        self.operations.append((backward, arguments, False))

    def record_saving(self, backward: Backward, *arguments: object) -> None:
        """Remember how to run an operation backward that saved something (a weight counts)."""
        self.operations.append((backward, arguments, True))

    def reach(self) -> None:
        """Say that an operation saves here: recomputation that stops early comes at least this far."""
        self.reached = self.peak
        self.reached_by = self.peak_by

    # -- gradients ----------------------------------------------------------------------------------------------

    def new_gradient(self, size: Bytes, *, is_view: bool = False) -> Gradient:
        """Return a new gradient buffer, owned once."""
        self.allocate(size, self.category)
        return Gradient(size, self.category, is_view)

    def release(self, gradient: Gradient) -> None:
        """End one owner of a gradient buffer."""
        gradient.owners -= 1
        if gradient.owners == 0:
            self.free(gradient.size, gradient.category)

    def take(self, tensor: Tensor) -> Gradient:
        """Return the gradient that arrived for ``tensor``; the caller owns it from here on."""
        gradient = tensor.gradient
        if gradient is None:
            message = "no gradient reached this tensor"
            raise AssertionError(message)
        tensor.gradient = None
        return gradient

    def give(self, tensor: Tensor, gradient: Gradient) -> None:
        """Add ``gradient`` to what ``tensor`` has received; in place where the engine may."""
        present = tensor.gradient
        if present is None:
            tensor.gradient = gradient
        elif present.owners == 1 and not present.is_view:
            self.release(gradient)
        else:
            total = self.new_gradient(present.size)
            self.release(present)
            self.release(gradient)
            tensor.gradient = total

    def keep_parameter_gradient(self, size: Bytes) -> None:
        """Let ``size`` bytes just made become a parameter's gradient, or be added into the one that is there."""
        if self.accumulating:
            self.free(size)
            return
        self.by[TEMPORARY] = self.by[TEMPORARY] - size
        self.by[GRADIENT] = self.by[GRADIENT] + size

    # -- forward where nothing is saved ------------------------------------------------------------------------

    @property
    def unsaved_peak_by(self) -> list[Bytes]:
        """The parts of ``unsaved_peak``: where nothing is saved, nothing has become an activation."""
        alive, only_saved = self._at_unsaved_peak
        by = [size - saved for size, saved in zip(alive, only_saved, strict=True)]
        by[TEMPORARY] = by[TEMPORARY] + by[ACTIVATION]
        by[ACTIVATION] = 0
        return by

    @property
    def unsaved_casts(self) -> Bytes:
        """Autocast's weight copies that are alive where nothing is saved: those its cache holds."""
        return self.by[CAST] - self.only_saved[CAST]

    # -- runs ---------------------------------------------------------------------------------------------------

    def restart_peak(self) -> tuple[Bytes, list[Bytes]]:
        """Return the peak so far and its parts, and look for a new one from here on."""
        reached = self.peak, self.peak_by
        self.peak = self.live
        self.peak_by = self.by.copy()
        return reached

    def leave_autocast(self) -> None:
        """Let the cached weight casts go: what an operation saved stays."""
        for tensor in self.casts.values():
            self.drop(tensor)
        self.casts.clear()

    def backward(self, *, down_to: int = 0) -> None:
        """Replay the operations in reverse, as the engine does, until ``down_to`` of them are left."""
        operations = self.operations
        while len(operations) > down_to:
            function, arguments, _ = operations.pop()
            function(self, *arguments)

    def backward_of_unsaving(self) -> None:
        """Replay the last operations up to the first that saved something: what runs before a recomputation."""
        while self.operations and not self.operations[-1][2]:
            function, arguments, _ = self.operations.pop()
            function(self, *arguments)


class ArrayTape(Tape):
    """The same counts for arrays of jobs. The parts of the peak are not kept, only the peak."""

    def allocate(self, size: Bytes, category: int = TEMPORARY) -> None:
        """Count ``size`` more bytes alive."""
        self.live = self.live + size
        self.by[category] = self.by[category] + size
        self.peak = largest(self.peak, self.live)
        if self.counts_unsaved:
            self.unsaved_peak = largest(self.unsaved_peak, self.live - self.only_saved_bytes)
