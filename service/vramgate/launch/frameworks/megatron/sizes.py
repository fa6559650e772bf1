"""Sizes of Megatron's model, read one by one, and what stands in the way of reading them."""

from vramgate.launch.frameworks.megatron.arguments import Arguments
from vramgate.launch.frameworks.megatron.pattern import MAX_LAYERS
from vramgate.launch.reading import Found, Misread, Reading, Unseen


class Sizes:
    """Reads sizes, and keeps what stands in the way."""

    def __init__(self, arguments: Arguments) -> None:
        """Read from these arguments."""
        self.arguments = arguments
        self.unseen: list[Unseen] = []
        self.misread: list[Misread] = []
        self.refused = False

    def _kept(self, reading: Reading[object]) -> None:
        if isinstance(reading, Unseen):
            self.unseen.append(reading)
        elif isinstance(reading, Misread):
            self.misread.append(reading)

    def whole(self, *names: str, default: int) -> int:
        """Return a size; negative ones are none."""
        reading = self.arguments.settings.whole(*names)
        self._kept(reading)
        if isinstance(reading, Found) and reading.value < 0:
            self.misread.append(Misread(reading.source, reading.value, "a size"))
        return max(0, reading.value) if isinstance(reading, Found) else default

    def layers(self, *names: str) -> int:
        """Return a number of layers, bounded: lists are as long as it is."""
        number = self.whole(*names, default=0)
        if number > MAX_LAYERS:
            source = next(
                self.arguments.settings[name].source
                for name in names
                if name in self.arguments.settings
            )
            self.misread.append(Misread(source, number, f"at most {MAX_LAYERS} layers"))
            return 0
        return number

    def number(self, name: str, *, default: float) -> float:
        """Return a number."""
        reading = self.arguments.settings.number(name)
        self._kept(reading)
        return reading.value if isinstance(reading, Found) else default

    def text(self, name: str, *, default: str) -> str:
        """Return a text."""
        reading = self.arguments.settings.text(name)
        self._kept(reading)
        return reading.value if isinstance(reading, Found) else default

    def switch(self, name: str, *negations: str, default: bool = False) -> bool:
        """Return a switch."""
        reading = self.arguments.switch(name, *negations)
        self._kept(reading)
        return reading.value if isinstance(reading, Found) else default
