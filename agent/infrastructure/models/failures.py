"""A model's failures as one sentence for the user: what happened, what is safe, what to do next.

Never a traceback, never a key: every text passes a scrubber that knows the configured keys and the
usual shapes of others.
"""

import re
from collections.abc import Iterable

from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
    UnexpectedModelBehavior,
)

from agent.domain.ports import ModelFailed

_KEY_SHAPES = re.compile(
    r"\b(?:sk|pk|rk|xai|gsk|AIza|ghp|hf)[-_][A-Za-z0-9_*.-]{6,}|\bAIza[A-Za-z0-9_-]{10,}"
    r"|(?i:bearer)\s+[A-Za-z0-9._~+/=-]{8,}"
)
_LONGEST_DETAIL = 300
_SAFE = "The conversation is safe; send a message to try again."


class Explain:
    """Words failures for one model at one provider."""

    def __init__(
        self, model: str, provider: str, base_url: str | None, keys: Iterable[str]
    ) -> None:
        self._model = model
        self._provider = provider
        self._where = base_url or f"the API of {provider}"
        # The longest first, so that a key inside another leaves nothing behind.
        self._keys = sorted((key for key in keys if len(key) >= 4), key=len, reverse=True)

    def scrub(self, text: str) -> str:
        """The text without anything that is or looks like a key."""
        for key in self._keys:
            text = text.replace(key, "[key]")
        return _KEY_SHAPES.sub("[key]", text)

    def failure(self, exc: Exception) -> ModelFailed:
        """What to tell the user of this exception."""
        message, code = self._words(exc)
        return ModelFailed(self.scrub(message), code)

    def silence(self, seconds: float) -> ModelFailed:
        return ModelFailed(
            f"{self._model} sent nothing for {seconds:.0f} seconds, so the request was given up."
            f" {_SAFE}",
            "model_timeout",
        )

    def cut(self) -> ModelFailed:
        return ModelFailed(
            f"The answer of {self._model} was cut off: {self._where} ended the stream early."
            f" What arrived is kept. {_SAFE}",
            "model_cut",
        )

    def not_understood(self) -> ModelFailed:
        """The server's words made the library stumble."""
        return ModelFailed(
            f"{self._where} sent for {self._model} what is not understood. Does it speak the API of"
            f" {self._provider}? What arrived is kept. {_SAFE}",
            "model_failed",
        )

    def _words(self, exc: Exception) -> tuple[str, str]:
        detail = _detail(exc)
        match exc:
            case ModelAuthenticationError():
                return (
                    f"{self._where} refused the key for {self._model}{detail}. Check it:"
                    f" {key_places(self._provider)}."
                ), "model_key"
            case ModelNotFoundError():
                return (
                    f"{self._where} has no model for {self._model}{detail}. Check the name in the"
                    " setting agent.model, and the base_url."
                ), "model_not_found"
            case ModelQuotaExceededError():
                return (
                    f"The account at {self._where} has no quota or credit left{detail}. Top it up,"
                    " or choose another model."
                ), "model_quota"
            case ModelRateLimitError():
                return f"{self._where} limits the rate{detail}. {self._when(exc)}", "model_rate"
            case ModelContextWindowExceededError():
                return (
                    f"The conversation is too long for {self._model}{detail}. Start a new one, or"
                    " choose a model with a larger context."
                ), "model_context"
            case ModelTimeoutError():
                return f"{self._where} did not answer in time{detail}. {_SAFE}", "model_timeout"
            case ModelConnectionError(phase="connect"):
                return (
                    f"{self._where} can't be reached{detail}. Is the server running, and is"
                    f" providers.{self._provider}.base_url right? {_SAFE}"
                ), "model_unreachable"
            case ModelAPIError() if "without a `finish_reason`" in exc.message:
                return str(self.cut()), "model_cut"
            case UnexpectedModelBehavior() if "without content" in exc.message:
                return (
                    f"{self._where} answered {self._model} with nothing. Does it speak the API of"
                    f" {self._provider}, and is the address right? {_SAFE}"
                ), "model_failed"
            case ModelConnectionError():
                return self.cut().args[0] + detail, "model_cut"
            case ModelUnavailableError() | ModelServerError():
                return (
                    f"{self._where} has trouble of its own{detail}. {self._when(exc)}"
                ), "model_server"
            case ModelHTTPError():
                return f"{self._where} refused the request{detail}.", "model_refused"
            case _:
                return f"{self._model} failed{detail}. {_SAFE}", "model_failed"

    def _when(self, exc: ModelAPIError) -> str:
        if exc.retry_after is None:
            return "Try again in a minute."
        return f"Try again in {exc.retry_after:.0f} seconds."


def retry_delay(exc: Exception, attempt: int) -> float | None:
    """How long to wait before the same request is worth sending again, or None if it is not."""
    if not isinstance(exc, ModelAPIError) or isinstance(exc, ModelQuotaExceededError):
        return None
    if isinstance(exc, ModelRateLimitError | ModelUnavailableError | ModelServerError):
        return exc.retry_after if exc.retry_after is not None else 0.5 * 2.0**attempt
    if isinstance(exc, ModelConnectionError) and exc.phase == "connect":
        # One quick look more: a local server may just be starting.
        return 0.2 if attempt == 0 else None
    return None


def key_places(provider: str) -> str:
    """Where a provider's key is set."""
    name = provider.upper().replace("-", "_")
    return (
        f"{name}_API_KEY in the environment, or providers.{provider}.api_key in the user's"
        " config.yaml"
    )


def _detail(exc: Exception) -> str:
    """What the provider said, short, in parentheses."""
    status = f"HTTP {exc.status_code}" if isinstance(exc, ModelHTTPError) else ""
    body = exc.body if isinstance(exc, ModelAPIError) else None
    said = ""
    if isinstance(body, dict):
        found: object = body.get("message") or body.get("error")  # pyright: ignore
        said = str(found) if found else ""  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(body, str):
        said = body
    elif not status:
        said = str(exc)
    said = " ".join(said.split())
    if len(said) > _LONGEST_DETAIL:
        said = said[:_LONGEST_DETAIL] + "..."
    whole = ": ".join(part for part in (status, said) if part)
    return f" ({whole})" if whole else ""
