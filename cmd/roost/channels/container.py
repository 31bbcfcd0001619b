"""The composition root of `roost channels`: inert objects; `main` enters what has a lifetime."""

from dependency_injector import containers, providers

from roost.channels.hosting import CALLED, TelegramHost
from roost.channels.infrastructure.find_daemon import FindDaemon
from roost.channels.infrastructure.remote_daemon import RemoteDaemon
from roost.channels.main import Channels
from roost.home import RoostHome
from roost.settings import TelegramSection


class ChannelsContainer(containers.DeclarativeContainer):
    """Given: home, the section, and how to find the daemon."""

    home = providers.Dependency(instance_of=RoostHome)
    telegram = providers.Dependency(instance_of=TelegramSection)
    find_daemon = providers.Dependency(instance_of=FindDaemon)

    daemon = providers.Singleton(RemoteDaemon, find_daemon, CALLED)
    host = providers.Singleton(TelegramHost, section=telegram, home=home, daemon=daemon)
    program = providers.Singleton(Channels, daemon=daemon, host=host)
