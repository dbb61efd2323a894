"""Which writing a text is in, and so which encoder it is for. Pure."""

from __future__ import annotations

import re

#: Up to this share of other writing, a text is the static vectors' alone: a name or a symbol says little.
_STATIC_ALONE = 0.05
#: From this share on it is the multilingual encoder's alone, which knows languages in Latin script too.
_MULTILINGUAL_ALONE = 0.5
#: A character of Chinese, Japanese or Korean carries about as much as three letters.
_CJK_LETTERS = 3

_LATIN = re.compile("[A-Za-zªºÀ-ÖØ-öø-ʯᴀ-ᴥḀ-ỿ]")
_LETTER = re.compile(r"[^\W\d_]")
_CJK = re.compile(
    "[\u1100-\u11ff\u3005-\u3007\u3041-\u3096\u30a1-\u30fa\u3105-\u318f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f]"
)


def other_share(text: str) -> float:
    """How much of a text's letters is not Latin, 0 to 1; of a text without letters, 0."""
    if text.isascii():
        return 0.0
    latin = len(_LATIN.findall(text))
    cjk = len(_CJK.findall(text))
    others = max(len(_LETTER.findall(text)) - latin - cjk, 0) + cjk * _CJK_LETTERS
    return others / (latin + others) if others else 0.0


def multilingual_share(text: str) -> float:
    """How much of a text's vector is the multilingual encoder's, 0 to 1: more, the less of it is in Latin script."""
    above = other_share(text) - _STATIC_ALONE
    return min(max(above / (_MULTILINGUAL_ALONE - _STATIC_ALONE), 0.0), 1.0)
