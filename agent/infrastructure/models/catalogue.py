"""From a model's name, `provider:name`, to a model. Provider packages are imported when used."""

import importlib
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, get_args

import anyio
import httpx2
import msgspec
from pydantic_ai.exceptions import UserError
from pydantic_ai.models import KnownModelName, Model, infer_model
from pydantic_ai.providers import Provider, infer_provider_class

from agent.domain.ports import Log, ModelFailed
from agent.infrastructure.models.failures import Explain, key_places
from agent.infrastructure.models.pydantic_model import PydanticModel
from agent.infrastructure.models.scripted import NAME, scripted_model

DEFAULT_MODEL = f"demo:{NAME}"
# A list is to choose from, and is asked for while somebody waits.
_MOST_OF_ONE = 100
_LIST_TIMEOUT = 2.0
_LIST_IS_FRESH = 30.0
_LONGEST_LIST = 1024 * 1024
# Providers whose own servers list models in another way than OpenAI's.
_OTHER_LISTS = frozenset({"anthropic", "azure", "bedrock", "cohere", "google", "huggingface"})
# Our own extras; other providers' packages are installed by the library's.
_EXTRAS = frozenset({"anthropic", "google", "openai"})
_NO_KEY = "not-set"
# The ones people ask for, for the error that lists them; the library knows more.
KNOWN_PROVIDERS = (
    "anthropic", "azure", "bedrock", "cohere", "deepseek", "demo", "fireworks", "google", "groq",
    "huggingface", "mistral", "ollama", "openai", "openai-responses", "openrouter", "together",
    "vllm", "xai",
)  # fmt: skip


class _Model(msgspec.Struct):
    id: str


class _ModelList(msgspec.Struct):
    data: list[_Model] = []


@dataclass(frozen=True, slots=True)
class ProviderAccess:
    """How to reach a provider, as far as it is set."""

    base_url: str | None = None
    api_key: str | None = None


@dataclass(slots=True, kw_only=True)
class Catalogue:
    """The models of the configured providers, for a list to choose from."""

    default: str
    access: Mapping[str, ProviderAccess]
    environ: Mapping[str, str]
    new_id: Callable[[], str]
    log: Log
    _served: dict[str, tuple[float, list[str]]] = field(
        default_factory=dict[str, tuple[float, list[str]]]
    )

    def find(self, name: str) -> PydanticModel:
        """Raises ModelFailed for a name that can't be a model's."""
        return find_model(name, self.access, self.new_id, self.log)

    async def names(self) -> list[str]:
        """The default, what each configured provider has, and the stand-in."""
        found = [self.default]
        for provider in self._providers():
            base_url = self._base_url(provider)
            if base_url is not None and provider not in _OTHER_LISTS:
                found += await self._served_models(provider, base_url)
            else:
                found += known_models(provider)[:_MOST_OF_ONE]
        return list(dict.fromkeys([*found, DEFAULT_MODEL]))

    def _providers(self) -> list[str]:
        by_key = [p for p in KNOWN_PROVIDERS if any(self.environ.get(k) for k in _key_names(p))]
        return list(dict.fromkeys([*self.access, *by_key]))

    def _base_url(self, provider: str) -> str | None:
        reach = self.access.get(provider)
        if reach is not None and reach.base_url:
            return reach.base_url
        return self.environ.get(_base_url_name(provider)) or None

    async def _served_models(self, provider: str, base_url: str) -> list[str]:
        """What a server says that it has; nothing when it does not answer soon."""
        asked, found = self._served.get(provider, (-_LIST_IS_FRESH, []))
        if anyio.current_time() - asked < _LIST_IS_FRESH:
            return found
        reach = self.access.get(provider, ProviderAccess())
        key = reach.api_key or next(
            (v for k in _key_names(provider) if (v := self.environ.get(k))), ""
        )
        found = []
        try:
            with anyio.fail_after(_LIST_TIMEOUT):
                found = await _fetch_models(base_url, key)
        except (
            httpx2.HTTPError,
            httpx2.InvalidURL,
            OSError,
            ValueError,
            msgspec.MsgspecError,
        ) as exc:
            self.log("info", "models_not_listed", provider=provider, reason=type(exc).__name__)
        names = [f"{provider}:{name}" for name in found[:_MOST_OF_ONE]]
        self._served[provider] = (anyio.current_time(), names)
        return names


def known_models(provider: str) -> list[str]:
    """The names that the library knows of a provider's models."""
    names: tuple[str, ...] = get_args(KnownModelName.__value__)
    return [name for name in names if name.startswith(f"{provider}:")]


async def _fetch_models(base_url: str, key: str) -> list[str]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with (
        httpx2.AsyncClient(timeout=_LIST_TIMEOUT) as client,
        client.stream("GET", base_url.rstrip("/") + "/models", headers=headers) as response,
    ):
        response.raise_for_status()
        data = bytearray()
        async for piece in response.aiter_bytes():
            data += piece
            if len(data) > _LONGEST_LIST:
                return []
    return [model.id for model in msgspec.json.decode(data, type=_ModelList).data]


def import_provider(provider: str) -> None:
    """Import now what a model of this provider needs when it is built. Raises ImportError."""
    if provider != "demo":
        infer_provider_class(provider)
        with suppress(ModuleNotFoundError):
            importlib.import_module(f"pydantic_ai.models.{provider.partition('-')[0]}")


def find_model(
    name: str, access: Mapping[str, ProviderAccess], new_id: Callable[[], str], log: Log
) -> PydanticModel:
    """The model of that name. Raises ModelFailed for a name that can't be one; imports nothing."""
    provider, _, model = name.partition(":")
    if not model:
        raise ModelFailed(
            f"The model {name!r} has no provider: write provider:name, for example"
            " openai:gpt-6-luna.",
            "model_unknown",
        )
    if provider == "demo":
        return _demo(name, model, new_id, log)
    reach = access.get(provider, ProviderAccess())
    explain = Explain(name, provider, reach.base_url, _keys(provider, access))
    return PydanticModel(
        build=partial(_build, provider, model, reach, explain),
        provider=provider,
        name=model,
        explain=explain,
        log=log,
        has_known_prices=reach.base_url is None and not os.environ.get(_base_url_name(provider)),
    )


def _demo(name: str, model: str, new_id: Callable[[], str], log: Log) -> PydanticModel:
    if model != NAME:
        raise ModelFailed(
            f"There is no {name!r}; the demo model is {DEFAULT_MODEL}.", "model_unknown"
        )
    return PydanticModel(
        build=partial(scripted_model, new_id),
        provider="demo",
        name=NAME,
        explain=Explain(name, "demo", None, ()),
        log=log,
        is_scripted=True,
    )


def _build(provider: str, model: str, reach: ProviderAccess, explain: Explain) -> Model:
    arguments = {"base_url": reach.base_url, "api_key": reach.api_key}
    given = {key: value for key, value in arguments.items() if value is not None}
    if (
        reach.base_url
        and provider in _EXTRAS
        and not any(map(os.environ.get, _key_names(provider)))
    ):
        # A server of one's own may want none; the provider's package insists on one.
        given.setdefault("api_key", _NO_KEY)

    name = f"{provider}:{model}"

    def make(provider_name: str) -> Provider[Any]:
        return infer_provider_class(provider_name)(**given)

    try:
        return _openai_chat(model, make) if provider == "openai" else infer_model(name, make)
    except ImportError as exc:
        raise _missing_package(provider, exc) from exc
    except ValueError as exc:
        known = ", ".join(KNOWN_PROVIDERS)
        raise ModelFailed(
            f"There is no provider {provider!r}. Some that there are: {known}.", "model_unknown"
        ) from exc
    except TypeError as exc:
        names = " and ".join(f"providers.{provider}.{key}" for key in given)
        raise ModelFailed(f"The provider {provider} takes no {names}.", "settings") from exc
    except UserError as exc:
        raise ModelFailed(
            explain.scrub(
                f"{name} can't be used yet: is its key set? It goes into"
                f" {key_places(provider)}. ({exc.message})"
            ),
            "model_key",
        ) from exc


def _openai_chat(model: str, make: Callable[[str], Provider[Any]]) -> Model:
    """OpenAI's chat API, which local servers and gateways speak; `openai-responses` is the other.

    A stream that ends without saying why was cut, whatever the connection says.
    """
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile

    return OpenAIChatModel(
        model,
        provider=make("openai"),
        profile=OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True),
    )


def _missing_package(provider: str, exc: ImportError) -> ModelFailed:
    named = re.search(r"pydantic-ai-slim\[([a-z0-9-]+)\]", str(exc))
    extra = named.group(1) if named else provider
    package = f"roost[{extra}]" if extra in _EXTRAS else f"pydantic-ai-slim[{extra}]"
    return ModelFailed(
        f"The package for {provider} is not installed. Install it: pip install '{package}'",
        "model_package",
    )


def _base_url_name(provider: str) -> str:
    return f"{provider.upper().replace('-', '_')}_BASE_URL"


def _key_names(provider: str) -> tuple[str, ...]:
    name = f"{provider.upper().replace('-', '_')}_API_KEY"
    return (name, "GEMINI_API_KEY") if provider == "google" else (name,)


def _keys(provider: str, access: Mapping[str, ProviderAccess]) -> list[str]:
    """Everything that must not appear in a message."""
    keys = [reach.api_key for reach in access.values() if reach.api_key]
    return [*keys, *(v for k, v in os.environ.items() if k.endswith(("_API_KEY", "_TOKEN")) and v)]
