"""A remote, frozen agent behind the OpenAI protocol (`POST url/chat/completions`): OpenAI itself, vLLM, SGLang, Ollama, …

It runs in the driver, since all it does is wait. Ids are where the runtime and text meet elsewhere; for a remote model, whose
tokenizer nobody has, they are the UTF-8 bytes of the chat messages and of the answer. What the server counted as tokens stands in
`Completion.usage`. There are no log-probabilities, and nothing to train.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Model, Sampling
from runtime.engines.protocol import Completion, Request

KEY = "OPENAI_API_KEY"
FIRST_PAUSE = 0.5  # seconds before the second attempt; doubled before each further one
_REFUSED = {401: "the key is missing or wrong", 403: "the key may not do this", 404: "no such model or address"}


class RemoteTokenizer:
    """Stands where rollout expects a tokenizer: messages to JSON to bytes, and bytes to text."""

    chat_template = "the server's"
    eos_token_id = None

    def apply_chat_template(
        self, messages: Sequence[Mapping[str, str]], chat_template: str | None = None, **options: Any
    ) -> str:
        """The messages, and what the server's template is to be told, as JSON."""
        if chat_template is not None:
            raise UserError("`chat.template` means nothing for a remote model", "remove it: the server has its own")
        told = {"chat_template_kwargs": {"enable_thinking": options["enable_thinking"]}} if _thinking(options) else {}
        return json.dumps({"messages": list(messages), **told}, ensure_ascii=False)

    def __call__(self, text: str, add_special_tokens: bool = False) -> SimpleNamespace:
        """Bytes in `input_ids`."""
        return SimpleNamespace(input_ids=list(text.encode()))

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """The text of the bytes."""
        return bytes(ids).decode(errors="replace")


class OpenAIEngine:
    """One remote model. At most `concurrency` requests are on their way at once."""

    def __init__(self, model: Model) -> None:
        args = model.engine.args
        self._name, self._model = model.name, args["model"]
        self._url = args["url"].rstrip("/") + "/chat/completions"
        self._timeout, self._retries = args.get("timeout", 60.0), args.get("retries", 3)
        self._free = asyncio.Semaphore(args.get("concurrency", 16))
        self._answered = False

    async def generate(self, requests: Sequence[Request]) -> list[Completion | Exception]:
        """Completions in the order of the requests; an exception where the server gives up on one of them.

        Raises:
            UserError: the server cannot be reached at all, or refuses the model or the key.
        """
        return list(await asyncio.gather(*map(self._one, requests)))

    async def _one(self, request: Request) -> Completion | Exception:
        async with self._free:
            try:
                reply = await self._post(body_of(self._model, request))
                return completion_of(reply, request.sampling)
            except UserError:
                raise
            except Exception as error:
                return error

    async def _post(self, body: Mapping[str, Any]) -> Any:
        """The server's reply. Failed connections, time-outs and the statuses 408, 429 and 5xx are tried again."""
        import aiohttp

        key = os.environ.get(KEY)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        limit = aiohttp.ClientTimeout(total=self._timeout)
        problem, reached = "", False
        async with aiohttp.ClientSession(timeout=limit, headers=headers) as session:
            for attempt in range(self._retries + 1):
                if attempt:
                    await asyncio.sleep(FIRST_PAUSE * 2 ** (attempt - 1))
                try:
                    async with session.post(self._url, json=body) as response:
                        reached = self._answered = True
                        if response.status == 200:
                            return await response.json(content_type=None)
                        problem = f"status {response.status}: {_message(await response.text())}"
                        self._refuse(response.status, problem)
                        if response.status < 500 and response.status not in (408, 429):
                            raise ValueError(problem)
                except TimeoutError:
                    problem, reached = f"no answer within {self._timeout:g} s", True
                except (aiohttp.ClientError, OSError) as error:
                    problem = str(error) or type(error).__name__
        if not (reached or self._answered):
            raise UserError(
                f"the server of model {self._name!r} cannot be reached at {self._url}: {problem}",
                f"start it, or correct the address: `--set '{self._name}.engine=openai(url = …, model = …)'`",
            )
        raise RuntimeError(f"{self._url}: {problem} (attempts: {self._retries + 1})")

    def _refuse(self, status: int, problem: str) -> None:
        if status in _REFUSED:
            raise UserError(
                f"the server of model {self._name!r} refuses {self._model!r} at {self._url}: {problem}",
                f"{_REFUSED[status]}; the key is read from ${KEY}",
            )


def body_of(model: str, request: Request) -> dict[str, Any]:
    """The request as the server takes it. `top_k` and `min_p` are extensions, sent only where they are set. Stop texts are
    not sent: a server cuts them off, and they have to stay."""
    sampling = request.sampling
    body: dict[str, Any] = {
        "model": model,
        **json.loads(bytes(request.prompt_ids)),
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
        "seed": request.seed,
    }
    extensions = {"top_k": sampling.top_k, "min_p": sampling.min_p}
    return body | {name: value for name, value in extensions.items() if value}


def completion_of(reply: Any, sampling: Sampling) -> Completion:
    """The first choice, cut behind its first stop text.

    Raises:
        ValueError: the reply is not of this protocol, or the server withheld the answer.
    """
    try:
        choice = reply["choices"][0]
        text, finish = choice["message"]["content"] or "", choice["finish_reason"]
        counted = reply.get("usage") or {}
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError("the reply has no choices[0].message.content and finish_reason") from error
    if finish not in ("stop", "length"):
        raise ValueError(f"the server ended the answer with {finish!r}")
    ends = [text.index(stop) + len(stop) for stop in sampling.stop if stop in text]
    usage = (counted["prompt_tokens"], counted["completion_tokens"]) if "completion_tokens" in counted else None
    return Completion(tuple((text[: min(ends)] if ends else text).encode()), (), "stop" if ends else finish, 0, usage)


def _thinking(options: Mapping[str, Any]) -> bool:
    return options.get("enable_thinking") is not None


def _message(text: str) -> str:
    """What the server says went wrong, on one line."""
    try:
        said = json.loads(text)
        said = said.get("error", said)
        text = said["message"] if isinstance(said, dict) else str(said)
    except (ValueError, KeyError, AttributeError):
        pass
    return " ".join(str(text).split())[:300]
