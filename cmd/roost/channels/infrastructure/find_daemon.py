"""Where the daemon of this home is now: its run file says, and the token lies beside it."""

from dataclasses import dataclass

from roost.daemon.run_file import RunFile, Running
from roost.daemon.token import BadToken, existing_token
from roost.home import RoostHome
from roost.settings import BindingSection


@dataclass(frozen=True, slots=True)
class Address:
    """Where a daemon listens, and what it wants to be shown."""

    host: str
    port: int
    token: str

    def __repr__(self) -> str:
        return f"Address({self.host}:{self.port})"


@dataclass(frozen=True, slots=True)
class FindDaemon:
    """Looks anew each time: a daemon that comes back may have another port."""

    home: RoostHome
    binding: BindingSection

    def __call__(self) -> Address | None:
        """None while no daemon serves on a port, or its token can't be read."""
        found = RunFile(self.home.daemon_json).look()
        try:
            token = existing_token(self.binding, self.home.token)
        except BadToken:
            return None
        if not isinstance(found, Running) or token is None:
            return None
        if found.record.port is None:
            return None
        return Address(found.record.host, found.record.port, token)
