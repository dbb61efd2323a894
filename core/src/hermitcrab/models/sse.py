"""Server-sent events: bytes in, the data of whole events out."""

from __future__ import annotations

#: Bytes that an event may take before the stream counts as broken.
MAX_EVENT_BYTES = 16 * 1024 * 1024


class EventDecoder:
    """Collects the bytes of a stream into the data of its events.

    Lines end at LF or CRLF and nowhere else, because JSON text may hold other characters that Python calls line ends.
    """

    def __init__(self) -> None:
        self._pending = bytearray()
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> list[str]:
        """The data of the events that ``chunk`` completes. Raises ValueError for an endless or undecodable event."""
        searched = len(self._pending)
        self._pending += chunk
        events: list[str] = []
        start = 0
        while (end := self._pending.find(b"\n", max(start, searched))) >= 0:
            events += self._line(bytes(self._pending[start:end]))
            start = end + 1
        del self._pending[:start]
        if len(self._pending) > MAX_EVENT_BYTES:
            raise ValueError(f"an event is larger than {MAX_EVENT_BYTES} bytes")
        return events

    def close(self) -> list[str]:
        """The data of an event that the end of the stream left without its blank line."""
        events = self._line(bytes(self._pending)) if self._pending else []
        self._pending.clear()
        return events + self._line(b"")

    def _line(self, line: bytes) -> list[str]:
        text = line.removesuffix(b"\r").decode("utf-8")
        if text.startswith("data:"):
            self._data.append(text[5:].removeprefix(" "))
            return []
        if text or not self._data:
            return []
        event, self._data = "\n".join(self._data), []
        return [event]
