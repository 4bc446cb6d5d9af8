"""Prompts: the sandbox, names, and the token ids under a chat template."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from transformers import PreTrainedTokenizerBase

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Call, Chat, Model, Sampling
from runtime.models import load_tokenizer
from runtime.rollout.failures import Failure
from runtime.rollout.program import prepare
from runtime.rollout.prompts import Names, encode, fitted, template
from tests.rollout.support import TINY, TOKENIZER, agent, chain, system

CHATML = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% if enable_thinking is false %}<think></think>{% endif %}{% endif %}"
)


def render(source: str, **names: Any) -> str:
    return fitted(template(source), names, [], [], lambda text: (), 10).text


def encoded(prompt: str, chat: Chat, tokenizer: PreTrainedTokenizerBase = TOKENIZER) -> str:
    return tokenizer.decode(encode(prompt, chat, tokenizer))


def test_none_renders_as_nothing_and_columns_hide_no_methods():
    assert render("{{ xs | join('+') }}", xs=["a", None, 3]) == "a++3"
    assert render("{{ xs | join(attribute='a') }}", xs=[Names({"a": "x"}), Names({"a": None})]) == "x"
    assert render("[{{ task.items }}|{{ task.none }}]", task=Names({"items": 3, "none": None})) == "[3|]"


@pytest.mark.parametrize("source", ["{{ nothing }}", "{{ task.nothing }}", "{{ ''.__class__ }}", "{{ xs.append(1) }}"])
def test_what_does_not_exist_or_is_not_allowed_fails(source: str):
    with pytest.raises(Failure, match="the prompt does not render"):
        render(source, task=Names({}), xs=[])


def test_a_template_that_is_not_jinja_is_the_users_error():
    with pytest.raises(UserError, match="not valid Jinja2"):
        template("{% if %}")


def test_the_text_itself_where_there_is_no_template():
    assert encoded("Why?", Chat()) == "Why?"
    assert encoded("Why?", Chat(system="Be brief.")) == "Be brief.\n\nWhy?"
    assert encoded("Why?", Chat(enable_thinking=False)) == "Why?"


def test_one_user_message_under_the_template():
    tokenizer = load_tokenizer(TINY, "")
    tokenizer.chat_template = CHATML
    assert encoded("Why?", Chat(), tokenizer) == "<|user|>Why?\n<|assistant|>"
    chat = Chat(system="Be brief.", enable_thinking=False)
    assert encoded("Why?", chat, tokenizer) == "<|system|>Be brief.\n<|user|>Why?\n<|assistant|><think></think>"
    assert encoded("Why?", Chat(template="{{ messages[0].content }}!"), tokenizer) == "Why?!"
    assert encoded("Why?", Chat(template=CHATML)) == "<|user|>Why?\n<|assistant|>"


def test_a_chat_template_that_refuses_is_the_users_error():
    with pytest.raises(UserError, match="the chat template fails: no system message"):
        encode("x", Chat(system="s", template="{{ raise_exception('no system message') }}"), TOKENIZER)


def test_an_agents_chat_stands_over_its_models():
    models = {"m": replace(TINY, chat=Chat(system="M", template=CHATML))}
    speakers = prepare(
        chain(system([agent("A"), agent("B", chat=Chat(system="B"))], models=models), "A", "B"), {"m": TOKENIZER}
    ).speakers
    assert TOKENIZER.decode(speakers["A"].encode("x")) == "<|system|>M\n<|user|>x\n<|assistant|>"
    assert TOKENIZER.decode(speakers["B"].encode("x")) == "<|system|>B\n<|user|>x\n<|assistant|>"


def test_no_room_for_any_prompt_is_the_users_error():
    made = chain(system([agent("A", sampling=Sampling(max_tokens=4096))]), "A")
    with pytest.raises(UserError, match="may write 4096 tokens, and the context of model m has 4096"):
        prepare(made, {"m": TOKENIZER})


def test_room_for_a_prompt_of_a_remote_model_is_counted_in_bytes():
    """Its context is tokens, as everybody counts it, and its ids are bytes: about three to a token."""
    far = Model("m", engine=Call("openai", {"url": "http://127.0.0.1:9", "model": "x"}), context=100)
    made = chain(system([agent("A", sampling=Sampling(max_tokens=40))], models={"m": far}), "A")
    assert prepare(made, {"m": load_tokenizer(far, "")}).speakers["A"].room == 180
