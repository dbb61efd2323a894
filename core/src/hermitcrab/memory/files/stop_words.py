"""Words that say nothing about what a query looks for."""

from __future__ import annotations

_ENGLISH = """
a about above after again all also am an and any anything are as ask at
be because been before being below between both but by
can could d did didn do does doesn doing don done down during
each either else ever every everything
few find for from further get give go got had hadn has hasn have haven having he help her here hers herself
him himself his how i if in into is isn it its itself just
know let like ll m many may me might mine more most much must my myself
need neither no nor not of off on once one only or other our ours ourselves out over own
please re s same say says she should shouldn show since so some something such
t tell than that the their theirs them themselves then there these they thing things this those through to too
under until up upon us ve very was wasn way we well were weren what when where which while who whom whose why
will with without won would wouldn yes yet you your yours yourself yourselves
"""

_PAIRS = """
什么 怎么 哪个 哪些 哪里 哪儿 为什 多少 我们 你们 他们 她们 它们 是不 不是 是否 有没 没有
可以 能否 请问 告诉 一下 一个 这个 那个
这些 那些 的是 了吗 的吗 是什 么时 时候 知道 记得 曾经 之前 以前 关于 以及 如何
怎样 谁是 是谁 吗我 你我 我的 你的 他的 她的
什麼 怎麼 哪個 為什 我們 你們 他們 請問 告訴 這個 那個 這些 時候 麼時 知道 關於
です ます した して する こと もの これ それ あれ どの どれ どこ いつ なに 何で から まで ください でし
습니 니다 입니 나요 어요 까요 는지 무엇 어떤 어디 언제 우리
"""

#: English words, lower-case, split at apostrophes as the tokeniser splits them.
STOP_WORDS = frozenset(_ENGLISH.split())

#: Pairs of CJK characters that only ask or join.
STOP_PAIRS = frozenset(_PAIRS.split())
