"""What a sentence is worth remembering for: rules over its words, in English and Chinese."""

from __future__ import annotations

import re
from enum import Enum

from hermitcrab.messages.identifiers import extract_identifiers
from hermitcrab.models.offline.text import is_question, plain


class Kind(Enum):
    """What a sentence states."""

    DECISION = "decision"
    OPEN = "open"
    CONSTRAINT = "constraint"
    CONCLUSION = "conclusion"
    PREFERENCE = "preference"
    FACT = "fact"


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_DECISION = _words(
    r"\bdecided\b|\bdecision\b|\blet['’]?s (?:go|use|do|stick|keep|switch|drop|call|name|make)\b"
    r"|\b(?:go|going|went) with\b|\binstead of\b|\bagreed\b|\bsettled on\b|\bwe (?:chose|picked)\b"
    r"|\b(?:we|i)(?:['’]ll| will) (?:use|go|keep|stick|drop)\b|\bswitch(?:ed|ing)? (?:to|from|over)\b"
    r"|决定|改用|采用|就用|定为|选用|选择了|敲定|商定|说好|换成|统一用|达成一致"
)
_TODO = _words(r"\b(?:todo|fixme|to-do)\b|\baction items?\b|待办|待处理")
_OPEN = _words(
    r"\bneeds? to\b|\bneed(?:s|ed)? (?:an?|more|the)\b|\bshould\b|\bnext\b|\bstill\b|\bremain(?:s|ing)\b"
    r"|\bpending\b|\bnot yet\b|\bhave to\b|\bleft to do\b|\bfollow up\b"
    r"|还需要|还要|接下来|下一步|尚未|还没|之后要|需要|仍然"
)
_CONSTRAINT = _words(
    r"\bmust\b|\bnever\b|\balways\b|\bno (?:more|less|fewer|longer) than\b|\bat (?:most|least)\b|\bforbidden\b"
    r"|\bnot allowed\b|\bmandatory\b|\brequired\b|\bunder no circumstances\b|\bmake sure\b"
    r"|必须|不要|禁止|不能|务必|一定要|只能|不得|不可以|始终|永远|最多|至少|严禁|不允许|总是|别用|绝不"
)
_WEAK_CONSTRAINT = _words(r"\bonly\b|只用|仅")
_PROHIBITION = _words(
    r"(?:\bplease |\bbut |\band |\bso |[,;:.] ?|^)(?:do not|don['’]t|dont) "
    r"(?!know|think|see|believe|understand|remember|mind|worry|you|we|they|i\b)"
)
_CONCLUSION = _words(
    r"\b(?:done|fixed|resolved|completed|finished|implemented|deployed|merged|confirmed|verified|solved)\b"
    r"|\broot cause\b|\bthe (?:cause|problem|issue|reason|culprit|fix|solution) (?:is|was)\b|\bturns? out\b"
    r"|\b(?:works|working) now\b|\btests? (?:now )?pass(?:es|ed)?\b|\bcaused by\b|\bconclusion\b|\bin summary\b"
    r"|已完成|已修复|修好|修复了|根因|原因是|已解决|搞定|完成了|确认|结论|总结"
)
_PREFERENCE = _words(
    r"\bi(?:['’]d)? (?:really |also |usually |still )?(?:like|prefer|love|hate|dislike|enjoy|want|need|use|rather)\b"
    r"|\bmy favou?rite\b|\bi['’]m (?:allergic|vegetarian|vegan|into)\b|\bremember\b|\bplease (?:note|keep)\b"
    r"|\bcall me\b|\bkeep in mind\b|\bimportant\b"
    r"|我(?:更|很|最|不|也)?(?:喜欢|偏好|讨厌|爱|想要|需要|习惯|想)|记住|记得|叫我|重要|以后都"
)
_FACT = _words(
    r"\bmy (?:\w+ ){1,3}(?:is|are|was|were)\b|\bi(?:['’]m| am|['’]ve| have| had| was| work| live| moved| got| went"
    r"| started| bought| joined| study| studied| teach| grew)\b|\bis called\b|\bare called\b|\bwas born\b"
    r"|\b(?:january|february|march|april|june|july|august|september|october|november|december)\b"
    r"|\b(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday|yesterday|tomorrow|tonight|birthday)\b"
    r"|\b(?:last|this) (?:week|month|year|summer|winter|spring|autumn|fall|night)\b"
    r"|我(?:是|在|叫|有|住|的)|名字|生日|电话|邮箱|地址|昨天|明天|上周|下周|去年|今年"
)
_NUMBER = re.compile(r"\d")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][\w'’-]+")

_FILLER_WORDS = """
a again ahead all alright and awesome bye cheers continue cool do done everyone excellent fine for go good goodbye
great haha hello hey hi it just keep know lgtm lol looks me morning much my nah nice night no nope now ok okay on one
out perfect please proceed really retry right run see so sounds start stop sure thank thanks that the then there this
try very wait well works wow yeah yep yes you next
"""
_FILLER = frozenset(_FILLER_WORDS.split())
# Atomic, because the phrases overlap: without it a long row of them takes exponential time.
_CHINESE_FILLER = re.compile(
    r"(?>(?:继续|好的|好吧|好|谢谢你|谢谢|多谢|你好|您好|嗯|可以|收到|是的|对的|对|行|没问题|不用了|不用|再见|下一个|下一步"
    r"|开始|明白了|明白|知道了|辛苦了|请|吧|了|啊|呢|\s)+)"
)
_ASKS = re.compile(
    r"(?:so|and|but|oh|hey|ok|okay)?,? ?(?:what|when|where|who|whom|whose|which|why|how)(?:['’]s|['’]re)? ?"
    r"(?:did|do|does|is|are|was|were|should|would|could|can|will|have|has|had|many|much|long|about)\b",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"(?:(?:ok|okay|hey|hi|and|so|also|now|then|please|great|thanks)[,!.]? ){0,3}"
    r"(?:can|could|would|will|shall|should|may) (?:you|we|i)\b|请|能不能|可不可以|能否|可以",
    re.IGNORECASE,
)
#: What a sentence states is said near its beginning; what follows can still be shown.
_SEARCHED_CHARACTERS = 1_500
_SILENT = frozenset({"no reply", "heartbeat ok"})
_COMMAND = re.compile(r"/[A-Za-z][\w-]*(?:\s|$)|!\w")
_SYMBOLS = re.compile(r"[{}()\[\];=<>|\\$&^~#@]")


def kind_of(sentence: str, *, by_user: bool) -> Kind | None:
    """What a sentence states, or None. A question states nothing.

    The broad words (only, done) count for the side that means something by them: limits are set by users, and
    conclusions drawn by assistants.
    """
    found = find_kind(sentence, by_user=by_user)
    return found[0] if found else None


def find_kind(sentence: str, *, by_user: bool) -> tuple[Kind, int] | None:
    """What a sentence states, and the position of the words that say so."""
    if is_question(sentence):
        return None
    for kind, pattern in _rules(by_user):
        match = pattern.search(sentence, 0, _SEARCHED_CHARACTERS)
        if match:
            return kind, match.start()
    return None


def _rules(by_user: bool) -> tuple[tuple[Kind, re.Pattern[str]], ...]:
    return _USER_RULES if by_user else _ASSISTANT_RULES


_SHARED_RULES = (
    (Kind.DECISION, _DECISION),
    (Kind.OPEN, _TODO),
    (Kind.CONSTRAINT, _PROHIBITION),
    (Kind.CONSTRAINT, _CONSTRAINT),
)
_USER_RULES = (
    *_SHARED_RULES,
    (Kind.PREFERENCE, _PREFERENCE),
    (Kind.CONSTRAINT, _WEAK_CONSTRAINT),
    (Kind.OPEN, _OPEN),
    (Kind.FACT, _FACT),
)
_ASSISTANT_RULES = (*_SHARED_RULES, (Kind.CONCLUSION, _CONCLUSION), (Kind.OPEN, _OPEN))


def has_detail(sentence: str) -> bool:
    """Whether a sentence holds a number, a name or an identifier, which one may later search for."""
    if _NUMBER.search(sentence) or _NAME.search(sentence):
        return True
    return bool(extract_identifiers(sentence))


def is_trivial(text: str) -> bool:
    """Whether a text is only a greeting, thanks, consent, a command or a silent token."""
    if _COMMAND.match(text):
        return True
    words = plain(text)
    if not words or words in _SILENT or _CHINESE_FILLER.fullmatch(words[:200]):
        return True
    return len(words) < 60 and _FILLER.issuperset(words.split())


def only_asks(sentence: str) -> bool:
    """Whether a sentence asks for information; a request in the form of a question does not."""
    if _REQUEST.match(sentence):
        return False
    return is_question(sentence) or _ASKS.match(sentence) is not None


def is_prose(line: str) -> bool:
    """Whether a line is written for people; code, tables and dumps are not."""
    return len(_SYMBOLS.findall(line)) * 8 <= len(line)
