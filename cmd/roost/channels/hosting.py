"""Telegram as a part of a program: built in a thread, run until cancelled, and its end is said.

Two programs host it, the daemon and `roost channels`; they differ in the daemon they hand in. What
goes wrong with a channel is logged and reported, and is never the hosting program's end.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog
from anyio import to_thread

from roost.channels.channel import Channel
from roost.channels.domain.chat import ChatRules
from roost.channels.domain.condition import Condition
from roost.channels.domain.ports import BadToken, Daemon
from roost.channels.domain.state import ChannelState
from roost.channels.infrastructure.project_files import find_file, is_folder
from roost.channels.infrastructure.report_file import ReportFile
from roost.channels.infrastructure.state_file import ChannelTaken, StateFile
from roost.home import RoostHome
from roost.quick_import import polite_imports
from roost.settings import TelegramSection

if TYPE_CHECKING:
    from roost.channels.infrastructure.telegram import Telegram

NAME = "telegram"
CALLED = "Telegram"
"""Where a decision was answered, in the words of the other screens."""
_NO_TOKEN = "no bot token is set: ROOST_TELEGRAM__TOKEN, or telegram.token in the settings"
_NO_PACKAGE = "the package for it is missing: pip install 'roost[telegram]'"

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class TelegramHost:
    """Everything that one program needs to run the channel."""

    section: TelegramSection
    home: RoostHome
    daemon: Daemon

    async def serve(self) -> None:
        """Until cancelled, or until it can't go on. Never raises anything but a cancellation."""
        report = ReportFile(self.home.channel_reports / f"{NAME}.json")
        try:
            reason = await self._run(report)
        except Exception:
            log.exception("channel_failed", channel=NAME)
            reason = "an error of its own; the log has the details"
        finally:
            report.remove()
        log.error("channel_ended", channel=NAME, reason=reason)
        await report.report(Condition(status="failed", detail=reason))

    async def _run(self, report: ReportFile) -> str:
        """Why it ended."""
        token = self.section.token
        if token is None:
            return _NO_TOKEN
        secret = token.get_secret_value()
        file = StateFile(self.home.channels / f"{NAME}-{secret.partition(':')[0]}.json")
        try:
            with file.held():
                state, damage = file.load()
                if damage is not None:
                    log.warning("channel_state_damaged", reason=damage)
                await report.report(Condition(status="starting"))
                service = await to_thread.run_sync(_built, secret, self.section)
                async with service.serving():
                    await self._channel(service, state, file, report).serve()
        except (ChannelTaken, BadToken) as exc:
            return str(exc)
        except ImportError:
            return _NO_PACKAGE
        except OSError as exc:
            return f"{exc.filename or file.file} can't be used: {exc.strerror}"
        return "it ended"

    def _channel(
        self, service: "Telegram", state: ChannelState, file: StateFile, report: ReportFile
    ) -> Channel:
        section = self.section
        rules = ChatRules(
            service=NAME,
            project=section.project,
            largest_file=section.largest_file,
            file_types=section.file_types,
            require_approval=section.require_approval,
            find_file=find_file,
            is_folder=is_folder,
        )
        return Channel(
            service=service,
            daemon=self.daemon,
            keeps=file,
            reports=report,
            state=state,
            allowed=frozenset(section.allowed_chats),
            rules=rules,
            projects=section.projects,
        )


def _built(secret: str, section: TelegramSection) -> "Telegram":
    """In a thread: it takes seconds, and the event loop goes on. Raises BadToken, ImportError."""
    with polite_imports():
        from roost.channels.infrastructure.telegram import Telegram

    return Telegram(secret, section.api_url, section.poll_timeout)
