"""From a model's name, `provider:name`, to a model. Provider packages are imported when used."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model, infer_model
from pydantic_ai.providers import Provider, infer_provider_class

from agent.domain.ports import Log, ModelFailed
from agent.infrastructure.models.failures import Explain, key_places
from agent.infrastructure.models.pydantic_model import PydanticModel
from agent.infrastructure.models.scripted import NAME, scripted_model

DEFAULT_MODEL = f"demo:{NAME}"
# Our own extras; other providers' packages are installed by the library's.
_EXTRAS = frozenset({"anthropic", "google", "openai"})
# The ones people ask for, for the error that lists them; the library knows more.
KNOWN_PROVIDERS = (
    "anthropic", "azure", "bedrock", "cohere", "deepseek", "demo", "fireworks", "google", "groq",
    "huggingface", "mistral", "ollama", "openai", "openai-responses", "openrouter", "together",
    "vllm", "xai",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ProviderAccess:
    """How to reach a provider, as far as it is set."""

    base_url: str | None = None
    api_key: str | None = None


def find_model(
    name: str, access: Mapping[str, ProviderAccess], new_id: Callable[[], str], log: Log
) -> PydanticModel:
    """The model of that name. Raises ModelFailed for a name that can't be one; imports nothing."""
    provider, _, model = name.partition(":")
    if not model:
        raise ModelFailed(
            f"The model {name!r} has no provider: write provider:name, for example"
            " openai:gpt-5-mini.",
            "model_unknown",
        )
    if provider == "demo":
        return _demo(name, model, new_id, log)
    reach = access.get(provider, ProviderAccess())
    explain = Explain(name, provider, reach.base_url, _keys(provider, access))
    built: list[Model] = []

    def build() -> Model:
        if not built:
            built.append(_build(provider, model, reach, explain))
        return built[0]

    return PydanticModel(build=build, provider=provider, name=model, explain=explain, log=log)


def _demo(name: str, model: str, new_id: Callable[[], str], log: Log) -> PydanticModel:
    if model != NAME:
        raise ModelFailed(
            f"There is no {name!r}; the demo model is {DEFAULT_MODEL}.", "model_unknown"
        )
    scripted = scripted_model(new_id)
    return PydanticModel(
        build=lambda: scripted,
        provider="demo",
        name=NAME,
        explain=Explain(name, "demo", None, ()),
        log=log,
        is_scripted=True,
    )


def _build(provider: str, model: str, reach: ProviderAccess, explain: Explain) -> Model:
    arguments = {"base_url": reach.base_url, "api_key": reach.api_key}
    given = {key: value for key, value in arguments.items() if value is not None}

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


def _keys(provider: str, access: Mapping[str, ProviderAccess]) -> list[str]:
    """Everything that must not appear in a message."""
    keys = [reach.api_key for reach in access.values() if reach.api_key]
    return [*keys, *(v for k, v in os.environ.items() if k.endswith(("_API_KEY", "_TOKEN")) and v)]
