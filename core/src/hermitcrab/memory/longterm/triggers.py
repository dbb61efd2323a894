"""Which texts say something worth keeping, and what it is about (memory 7.5, step 3).

Words stand alone: "is" inside of "this" is no fact. Words that are everywhere, such as "always", count only where
somebody speaks of themselves or asks for something.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from hermitcrab.memory.longterm.contract import Category

#: A text without CJK characters has at least this many characters, and words unless it is an address.
SHORTEST = 10
FEWEST_WORDS = 3

_FLAGS = re.IGNORECASE
_CJK = re.compile("[\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")

_EMAIL = r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}\.[\w.-]{0,200}\w"
_PHONE = r"\+\d(?:[ ().-]{0,2}\d){9,}"
_CONTACT = re.compile(f"{_EMAIL}|{_PHONE}")

#: What somebody is or has for the moment.
_PASSING = "bit|little|lot|few|question|problem|issue|bug|error|feeling|look|idea|doubt|request|file|list|guess|task"
#: What things are for the moment.
_STATES = (
    "not|broken|failing|down|slow|stuck|missing|empty|wrong|gone|late|ready|done|there|running"
)
_ENGLISH = re.compile(
    r"\b(?:please remember|remember (?:that|this|my|to|our|i|we|the|me)|remember[:,]"
    r"|don't forget|do not forget|note (?:that|down)|keep (?:(?:that|this|it) )?in mind|for the record|from now on"
    r"|i (?:\w+ )?prefer|we (?:\w+ )?prefer|my preference|i'd rather|i would rather"
    r"|i (?:really |also |still |just |only |absolutely )?(?:like|love|hate|dislike|enjoy|can't stand)"
    r"|i (?:don't|do not|never) (?:like|want|eat|drink|use|need|work|take)(?! you\b)"
    r"|(?<!\bif )i (?:want|need)(?! (?:you|help|to (?:see|know|check|find|fix)|an? |the |this |some )\b)"
    r"|call me|i was born|we're going with"
    r"|i (?:live|lived|moved to|usually|speak)|i work (?:at|as|for|in|from|on|nights)"
    r"|i use (?:an?|only|mostly)|(?:i'm|i am) (?:allergic|vegetarian|vegan)"
    rf"|(?:i'm|i am|i have) (?:an?|one|two|three|four|\d+) (?!(?:{_PASSING}))"
    r"|we(?:'ve| have)? (?:decided|agreed|chose|settled)|we(?:'ll| will) (?:use|go with)|let's (?:use|go with)"
    r"|i(?:'ve| have)? decided)\b"
    rf"|\b(?:my|our) (?:[\w'-]+ ){{1,5}}(?:is|are|was|were)\b(?! (?:{_STATES})\b)"
    r"|\bis my\b|\bare my\b"
    r"|(?:^|[.!;\n][ \t]*)(?:please )?(?:always|never)\b"
    r"|\b(?:i|we|you should|you must|please)\b(?!'ll)[^.!?\n]{0,30}\b(?:always|never)\b"
    r"|\bimportant (?:to (?:me|us)|for (?:me|us)|that)\b|\bimportant:",
    _FLAGS,
)
# Compared without accents, as people type them.
_CZECH = re.compile(
    r"\b(?:zapamatuj|pamatuj|nezapomen|jmenuj|bydlim|alergi|preferuj|radsi|radeji|nechci|mam rada?|nemam rada?"
    r"|rozhodli jsme|rozhodl[ai]? jsem|budeme pouzivat)\w*"
    r"|\b(?:muj|moje|ma|me) (?:[\w-]+ ){1,4}(?:je|jsou)\b|\bje (?:muj|moje)\b",
    _FLAGS,
)
_CHINESE = re.compile(
    r"记住|記住|记下|記下|记一下|記一下|别忘|別忘|不要忘"
    r"|我(?:最|很|不|也|更|还|還|真的|非常|特别|特別|比较|比較){0,2}(?:喜欢|喜歡|讨厌|討厭|爱|愛|偏好|习惯|習慣)"
    r"|我(?:不)?(?:想要|需要)(?!你|帮|幫|看|一下)|我(?:们|們)?(?:的|家)[^。！？，,\n]{1,20}(?:是|叫|在)"
    r"|我(?:们|們)?(?:的)?(?:女儿|女兒|儿子|兒子|妻子|丈夫|老婆|老公|妈妈|媽媽|爸爸|哥哥|姐姐|弟弟|妹妹|孩子|猫|貓|狗)"
    r"|我叫|我住|我是(?!说|說|想|不是|否|在|指|问|問|要|谁|誰)|我对[^。！？\n]{1,12}过敏|我對[^。！？\n]{1,12}過敏"
    r"|(?:以后|以後|今后|今後)(?:都|就|请|請|要|一律)?(?:用|使用|改用)"
    r"|(?:我|我们|我們|咱们|咱們|大家)[^。！？\n]{0,6}(?:决定|決定)|(?:决定|決定)(?:了|用|使用|采用|採用|改用)"
    r"|(?:我|我们|我們|请|請|以后|以後)[^。！？\n]{0,10}(?:总是|總是|从不|從不|永远|永遠)"
    r"|(?:^|[。！；，\n])(?:总是|總是|永远|永遠|绝不|絕不)"
    r"|(?:很|最|非常)重要|重要[:：]|重要的是"
)
_JAPANESE = re.compile(
    r"覚えて|忘れないで|(?:が|は)(?:大|とても)?(?:好き|嫌い|苦手)(?:です|だ|。|$|な)|大好き|大嫌い"
    r"|(?:私|僕|俺)は[^。！？?\n]{1,20}(?:です|だ)(?:。|$)|これからは"
    r"|(?:私|僕|俺)[^。！？\n]{0,20}(?:必要|名前|住ん|働い)|好みは|好みです"
    r"|(?:いつも|常に|必ず|絶対に?)[^。！？\n]{0,30}(?:ください|ます|ている|使って|してね|で。)"
    r"|(?:重要|大事)(?:です|なこと|：|:)|アレルギー|に(?:決めた|決めました|決定)"
)
_KOREAN = re.compile(
    r"(?:나는|저는)[^.!?\n]{1,20}(?:예요|이에요|입니다|이야|살아|삽니다|일해|일합니다)"
    r"|기억해|잊지 ?마|(?:나는|저는|난|전|제가|내가)[^.!?\n]{0,30}(?:좋아|싫어|선호|필요|원해|원합)"
    r"|(?:을|를|이|가) (?:정말 |아주 )?(?:좋아해|좋아합니다|싫어해|싫어합니다|선호해|선호합니다)"
    r"|(?:내|제|우리) [^.!?\n]{1,20}(?:은|는|이|가) |(?:항상|언제나|절대)[^.!?\n]{0,30}(?:주세요|줘|해요|합니다|마)"
    r"|중요한|중요해|중요합니다|알레르기|(?:결정했|정했|하기로 했)"
)

_QUESTION_ENDS = re.compile(r"[?？]")
_REQUEST = re.compile(
    r"\b(?:can|could|would|will) you (?:please )?(?:remember|note|always|never|keep|call me)\b"
    r"|\bplease remember\b|吗[?？]?\s*请记|记住|記住|覚えて|기억해",
    _FLAGS,
)
#: A sentence that gives a task: what it quotes or describes is not about its writer.
_TASK = re.compile(
    r"(?:please )?(?:translate|summari[sz]e|rewrite|rephrase|proofread|explain|show me|fix|debug|refactor|implement)\b"
    r"|(?:please )?(?:can|could|would|will) you\b|(?:请|請)?(?:帮我|幫我|翻译|翻譯|总结|總結|解释|解釋)",
    _FLAGS,
)
#: Stands for the dots of an address, which end no sentence.
_DOT = "\u2024"
_SENTENCES = re.compile(r"[^.!?。！？\n]+[.!?。！？]*")


def is_long_enough(text: str) -> bool:
    """Whether ``text`` says more than its trigger: 10 characters and 3 words, or anything in CJK characters."""
    if _CJK.search(text) is not None:
        return True
    has_words = len(text.split()) >= FEWEST_WORDS or _CONTACT.search(text) is not None
    return has_words and len(text) >= SHORTEST


def has_trigger(text: str, custom: Iterable[str] = ()) -> bool:
    """Whether ``text`` says something that its writer may want to be remembered.

    :param custom: further texts, compared in any case.
    """
    folded = text.casefold()
    if any(trigger.strip().casefold() in folded for trigger in custom if trigger.strip()):
        return True
    told = _told(text)
    if not told:
        return False
    return (
        any(pattern.search(told) for pattern in (_ENGLISH, _CHINESE, _JAPANESE, _KOREAN, _CONTACT))
        or _CZECH.search(_plain(told)) is not None
    )


def _told(text: str) -> str:
    """``text`` without its questions and tasks, which tell nothing; those that ask to remember stay."""
    text = text.replace("\u2019", "'")
    if _REQUEST.search(text):
        return text
    found = (each[0].strip() for each in _SENTENCES.finditer(_CONTACT.sub(_dotless, text)))
    told = [each for each in found if not (_QUESTION_ENDS.search(each) or _TASK.match(each))]
    return "\n".join(told).replace(_DOT, ".")


def _dotless(match: re.Match[str]) -> str:
    return match[0].replace(".", _DOT)


def _plain(text: str) -> str:
    """``text`` without accents."""
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(c for c in decomposed if not unicodedata.combining(c))


_PREFERENCE = re.compile(
    r"\b(?:prefer|prefers|preferred|preference|preferences|favou?rite|rather|dislikes?|hates?|loves?|enjoys?)\b"
    r"|\b(?:i|we|user|he|she|they) (?:\w+ )?(?:like|likes|want|wants)\b|\b(?:don't|do not|doesn't) (?:like|want)\b"
    r"|\b(?:preferuj|radsi|radeji|nechci|mam rad)\w*"
    r"|喜欢|喜歡|讨厌|討厭|偏好|想要|我爱|我愛|习惯|習慣|好き|嫌い|苦手|好み|좋아|싫어|선호",
    _FLAGS,
)
_DECISION = re.compile(
    r"\b(?:decided|decision|agreed|we chose|settled on|(?:we'll|we will|let's) (?:use|go with)|going with)\b"
    r"|\b(?:rozhodl|budeme pouzivat)\w*|决定|決定|决議|以后(?:都)?用|以後(?:都)?用|決めた|決めました|결정|하기로 했",
    _FLAGS,
)
_ENTITY = re.compile(
    r"\b(?:is|are|am) called\b|\bcall me\b|\bnames? (?:is|are)\b|\bnamed\b|\bjmenuj\w*|\bjmeno je\b"
    r"|我叫|名字(?:是|叫)|名叫|という名前|名前は|이름은",
    _FLAGS,
)
_FACT = re.compile(
    r"\b(?:is|are|am|was|were|has|have|had|lives?|works?|uses?|owns?|runs?|speaks?)\b|\b(?:i|we|it)'(?:m|ve|s|re)\b"
    r"|\b(?:je|jsou|jsem|ma|maji)\b"
    r"|是|在|有|住|です|ます|である|입니다|이다|이에요|예요|있",
    _FLAGS,
)


def guessed_category(text: str) -> Category:
    """What ``text`` is about: the first that fits of preference, decision, entity and fact, else other."""
    plain = _plain(text.replace("\u2019", "'"))
    # Hangul falls apart without its accents, so both forms are looked at.
    both = f"{plain}\n{text}"
    if _PREFERENCE.search(both):
        return "preference"
    if _DECISION.search(both):
        return "decision"
    if _ENTITY.search(both) or _CONTACT.search(text):
        return "entity"
    return "fact" if _FACT.search(both) else "other"
