"""The remote engine against a real HTTP server that misbehaves on demand."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Call, Chat, Model
from runtime import models
from runtime.engines import openai
from runtime.engines.openai import OpenAIEngine
from runtime.engines.protocol import Completion
from runtime.rollout.prompts import encode
from tests.engines.tiny import request


class Server:
    """Answers with `reply`, after the statuses of `first` are used up; remembers what it was asked."""

    def __init__(self, reply="fine", finish="stop", first=(), delay=0.0):
        self.reply, self.finish, self.delay = reply, finish, delay
        self.first, self.asked, self.keys = list(first), [], []
        self.now = self.most = 0

    async def answer(self, http):
        self.asked.append(await http.json())
        self.keys.append(http.headers.get("Authorization"))
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(self.delay)
        self.now -= 1
        if self.first:
            return web.json_response({"error": {"message": "not\n now"}}, status=self.first.pop(0))
        choice = {"message": {"role": "assistant", "content": self.reply}, "finish_reason": self.finish}
        return web.json_response({"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 2}})


@asynccontextmanager
async def running(server, **settings):
    app = web.Application()
    app.router.add_post("/v1/chat/completions", server.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield OpenAIEngine(remote(f"http://127.0.0.1:{port}/v1", **settings))
    finally:
        await runner.cleanup()


def remote(url, **settings):
    return Model("far", engine=Call("openai", {"url": url, "model": "gpt", **settings}))


def asked(text="Hello?", chat=None, **sampling):
    tokenizer = models.load_tokenizer(remote("http://x"), "")
    return request(encode(text, chat or Chat(), tokenizer), **sampling)


def ask(server, *requests, **settings):
    async def go():
        async with running(server, **settings) as engine:
            return await engine.generate(requests)

    return asyncio.run(go())


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(openai, "FIRST_PAUSE", 0.001)
    monkeypatch.delenv(openai.KEY, raising=False)


def test_messages_go_out_and_text_comes_back():
    server = Server("Grüß Gott, {nobody}")
    chat = Chat(system="Be kind.", enable_thinking=False)
    (given,) = ask(server, asked("Wie geht's?", chat, temperature=0.5, top_k=3, max_tokens=9, seed=5))
    assert models.load_tokenizer(remote("http://x"), "").decode(given.response_ids) == "Grüß Gott, {nobody}"
    assert (given.usage, given.logprobs, given.finish) == ((7, 2), (), "stop")
    assert server.asked == [
        {
            "model": "gpt",
            "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Wie geht's?"}],
            "chat_template_kwargs": {"enable_thinking": False},
            "temperature": 0.5,
            "top_p": 1.0,
            "top_k": 3,
            "max_tokens": 9,
            "seed": 5,
        }
    ]


def test_stop_texts_end_the_answer_and_stay():
    (given,) = ask(Server("<q>x</q> and more STOP", "length"), asked(stop=("STOP", "</q>")))
    assert (bytes(given.response_ids), given.finish) == (b"<q>x</q>", "stop")
    (given,) = ask(Server("no such thing", "length"), asked(stop=("STOP",)))
    assert (bytes(given.response_ids), given.finish) == (b"no such thing", "length")


def test_the_key_is_sent_where_there_is_one(monkeypatch):
    server = Server()
    ask(server, asked())
    monkeypatch.setenv(openai.KEY, "sk-1")
    ask(server, asked())
    assert server.keys == [None, "Bearer sk-1"]


def test_at_most_so_many_at_once_in_order():
    server = Server(delay=0.01)
    completions = ask(server, *(asked(f"{n}") for n in range(12)), concurrency=3)
    assert server.most == 3
    assert all(isinstance(completion, Completion) for completion in completions)


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_what_passes_is_tried_again(status):
    server = Server(first=[status, status])
    (given,) = ask(server, asked(), retries=2)
    assert isinstance(given, Completion)
    assert len(server.asked) == 3


def test_one_that_fails_for_good_fails_alone():
    server = Server(first=[500, 500])
    failed, fine = ask(server, asked(), asked("again"), retries=1, concurrency=1)
    assert str(failed).endswith("status 500: not now (attempts: 2)")
    assert isinstance(fine, Completion)
    (refused,) = ask(server := Server(first=[400]), asked(), retries=3)
    assert str(refused) == "status 400: not now"
    assert len(server.asked) == 1


def test_a_server_that_is_too_slow():
    (late,) = ask(Server(delay=0.5), asked(), timeout=0.05, retries=1)
    assert "no answer within 0.05 s (attempts: 2)" in str(late)


@pytest.mark.parametrize(("status", "fix"), [(401, "key is missing"), (403, "may not"), (404, "no such model")])
def test_what_the_user_must_mend(status, fix):
    with pytest.raises(UserError, match="refuses 'gpt'") as caught:
        ask(Server(first=[status]), asked())
    assert fix in caught.value.help


def test_a_server_that_is_not_there():
    async def go():
        return await OpenAIEngine(remote("http://127.0.0.1:1/v1", retries=1)).generate([asked()])

    with pytest.raises(UserError, match=r"'far' cannot be reached at http://127\.0\.0\.1:1/v1"):
        asyncio.run(go())


@pytest.mark.parametrize("reply", [{}, {"choices": []}, {"choices": [{"message": None, "finish_reason": "stop"}]}, 3])
def test_replies_of_another_kind(reply):
    with pytest.raises(ValueError, match="the reply has no choices"):
        openai.completion_of(reply, asked().sampling)


def test_a_withheld_answer_is_no_answer():
    (withheld,) = ask(Server("", "content_filter"), asked())
    assert "'content_filter'" in str(withheld)


def test_context_of_a_remote_model_is_estimated_in_bytes():
    assert models.context_length(remote("http://x"), "") == models.UNLIMITED
    assert models.context_length(Model("m", engine=Call("openai"), context=100), "") == 100


def test_a_template_for_a_remote_model_is_refused():
    with pytest.raises(UserError, match=r"chat\.template"):
        asked(chat=Chat(template="{{ messages }}"))


def test_ids_are_the_bytes_of_json():
    assert json.loads(bytes(asked("a").prompt_ids)) == {"messages": [{"role": "user", "content": "a"}]}
