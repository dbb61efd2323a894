"""What of a passage is embedded; the index keeps one vector for each passage."""

from __future__ import annotations

from collections.abc import Sequence

from hermitcrab.memory.files import Passage

#: Stored with an index; another number means that its vectors must be made again.
EMBEDDING_TEXT_VERSION = 2

# A longer passage says enough by itself; with its neighbours it would only cost more to embed.
_SHORT = 300


def embedding_texts(passages: Sequence[Passage]) -> list[str]:
    """The text to embed for each passage of one file, in order; an unchanged text needs no new vector.

    A short one takes in the lines right before and after it, as far as they are short too: what someone says is often
    understood only by what was said before.
    """
    return [_with_neighbours(passages, number) for number in range(len(passages))]


def _with_neighbours(passages: Sequence[Passage], number: int) -> str:
    passage = passages[number]
    texts = [passage.text]
    if len(passage.text) > _SHORT:
        return passage.text
    if number > 0 and _joins(passages[number - 1], passage):
        texts.insert(0, passages[number - 1].text)
    if number + 1 < len(passages) and _joins(passage, passages[number + 1]):
        texts.append(passages[number + 1].text)
    return "\n".join(texts)


def _joins(first: Passage, second: Passage) -> bool:
    """Whether two neighbours are short and no line lies between them."""
    return (
        len(first.text) <= _SHORT
        and len(second.text) <= _SHORT
        and second.start_line - first.end_line == 1
    )
