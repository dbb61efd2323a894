"""How well capture tells what is worth keeping, on a hundred messages that stand for all its languages (C79).

Rules miss much of what people say in passing; what they keep should be worth it. On the messages of ``LASTING_2`` and
``PASSING_2``, which were written after the rules, the first measurement had a precision of 1 and a recall of a half.
"""

from __future__ import annotations

import pytest

from hermitcrab.memory.longterm import LongTermSettings
from hermitcrab.memory.longterm.capturing import candidates
from hermitcrab.messages import user

LASTING = [
    "I'm vegetarian, so keep that in mind for recipes.",
    "My wife's birthday is on 12 March.",
    "Our production cluster is called harbour-1.",
    "Please always use British spelling in my documents.",
    "I moved to Brno last month.",
    "I have two kids, Tom and Eva.",
    "We agreed that releases happen on Thursdays.",
    "I'm a nurse and I work nights.",
    "Never send emails on my behalf without asking.",
    "Let's go with SQLite instead of Postgres.",
    "My favourite editor is Helix.",
    "I can't stand long answers, keep them brief.",
    "You can call me Sam.",
    "I'd rather have tables than bullet lists.",
    "The wifi at my office is called Crab5G.",
    "I usually get up at five.",
    "My doctor is Dr Novak, +420 777 123 456 78.",
    "I use a Mac with an M2 chip.",
    "For the record, the contract ends in June 2027.",
    "I speak Czech and a bit of German.",
    "We decided against Kubernetes.",
    "From now on, answer me in Czech.",
    "I don't drink alcohol.",
    "Don't forget that I am away until Monday.",
    "Jsem alergický na ořechy, zapamatuj si to.",
    "Mám raději krátké odpovědi.",
    "Rozhodli jsme se použít SQLite.",
    "我对花生过敏。",
    "我住在杭州，在一家银行工作。",
    "以后请用简体中文回答。",
    "我女儿今年五岁。",
    "请记住我的生日是三月十二日。",
    "我们团队决定每周四发布。",
    "我不喜欢太长的回答。",
    "私はベジタリアンです。",
    "猫アレルギーがあります、覚えておいてください。",
    "これからは敬語を使わないでください。",
    "저는 채식주의자예요.",
    "저는 매운 음식을 싫어해요.",
    "앞으로 항상 짧게 대답해 주세요.",
]
PASSING = [
    "Can you check why the build is red?",
    "Thanks, that worked perfectly.",
    "What's my wife's birthday again?",
    "Write a function that always returns true.",
    "The server never responds after a restart.",
    "Please rename the variable to total.",
    "How do I remember to water my plants?",
    "I need a list of all open issues.",
    "I want to see the logs from yesterday.",
    "Run the tests again please.",
    "Is my code correct?",
    "My code is not working.",
    "My test fails with a TypeError.",
    "It is important.",
    "Never mind.",
    "I think this is wrong.",
    "Let me know when you are done.",
    "Summarise the following article: the city decided to close the bridge.",
    "Translate: I prefer tea.",
    "What do you prefer, tea or coffee?",
    "Show me what we decided yesterday.",
    "ok do it",
    "Here is the output: user ada logged in, 3 files changed.",
    "Why does my phone always lose its connection?",
    "Please fix this: the cache is never cleared.",
    "I am getting an error when I start the app.",
    "I have a question about the parser.",
    "I was wondering if you could help me.",
    "Use the second option.",
    "That's not what I meant.",
    "Jak se dnes máš?",
    "Oprav prosím ten test.",
    "帮我看一下这个错误。",
    "今天天气怎么样？",
    "我不知道为什么测试失败了。",
    "谢谢，非常好。",
    "これを翻訳してください。",
    "テストが失敗しました。",
    "이 오류를 고쳐 주세요.",
    "고마워요!",
]
LASTING_2 = [
    "I was born in Prague in 1990.",
    "My manager is Jana and my team is called Harbour.",
    "Just so you know, I'm colour-blind.",
    "We're going with Tailwind for the new site.",
    "I'm learning Japanese at the moment, level N4.",
    "Please don't use emojis when you write to me.",
    "The deploy key lives in the blue folder, remember that.",
    "I hate it when answers start with an apology.",
    "Our office closes at six on Fridays.",
    "I take my coffee black.",
    "I'm training for a marathon in May.",
    "We chose Rust for the parser.",
    "My cat, Miso, has diabetes.",
    "My time zone is Europe/Prague.",
    "I prefer pytest over unittest.",
    "Jmenuji se Petr a bydlím v Brně.",
    "Moje dcera má alergii na mléko.",
    "我最讨厌香菜。",
    "我们家的狗叫豆豆。",
    "记一下，Wi-Fi密码换了，新的在抽屉里。",
    "私の名前は田中です。",
    "毎朝六時に起きます、覚えておいて。",
    "제 이름은 김민수입니다.",
    "저는 서울에 살아요.",
]
PASSING_2 = [
    "Could you look at line 40?",
    "That looks good to me.",
    "The import fails because the module is missing.",
    "What does this error mean?",
    "Make the button blue.",
    "Add a test for the empty list.",
    "I'm not sure what you mean.",
    "I am trying to install the package.",
    "I have a bug in my loop.",
    "I don't know why it crashes.",
    "Our tests are failing again.",
    "Rename my_var to count.",
    "You are right, sorry.",
    "We should look at this together tomorrow.",
    "The weather is nice today.",
    "It works now!",
    "Give me three ideas for a birthday present.",
    "Do I need a visa for Japan?",
    "Who was the first president of Czechoslovakia?",
    "I just ran it, same error.",
    "Kolik je hodin?",
    "Díky moc!",
    "再试一次。",
    "为什么这么慢？",
    "もう一度お願いします。",
    "ありがとうございます。",
    "다시 해 보세요.",
    "이게 뭐예요?",
]


def _kept(texts):
    found = candidates([user(text) for text in texts], LongTermSettings())
    return [each.text for each in found if each.rejected is None]


@pytest.mark.parametrize(
    ("lasting", "passing", "least_recall"),
    [(LASTING, PASSING, 0.95), (LASTING_2, PASSING_2, 0.7)],
)
def test_what_is_kept_is_worth_it_and_most_of_what_is_worth_it_is_kept(
    lasting, passing, least_recall
):
    right, wrong = _kept(lasting), _kept(passing)
    assert len(right) / (len(right) + len(wrong)) >= 0.95, wrong
    assert len(right) / len(lasting) >= least_recall, set(lasting) - set(right)
