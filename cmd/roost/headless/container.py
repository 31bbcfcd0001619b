"""What a worker's runs work with, wired. All of it is inert: nothing is entered or started."""

from dependency_injector import containers, providers

from agent.infrastructure.mcp.servers import McpServers
from agent.infrastructure.models.catalogue import Catalogue
from agent.infrastructure.tools.bash import Bash
from agent.infrastructure.tools.files import Edit, Read, Write
from agent.infrastructure.tools.finding import finder
from agent.infrastructure.tools.plans import ProposePlan
from agent.infrastructure.tools.questions import AskUserQuestion
from agent.infrastructure.tools.search import Glob, Grep
from agent.infrastructure.tools.todos import TodoWrite
from agent.infrastructure.tools.web import WebFetch


class HeadlessContainer(containers.DeclarativeContainer):
    """The model and the tools of one conversation."""

    project_dir: providers.Dependency[object] = providers.Dependency()
    environ: providers.Dependency[object] = providers.Dependency()
    provider_environ: providers.Dependency[object] = providers.Dependency()
    sandbox: providers.Dependency[object] = providers.Dependency()
    readable: providers.Dependency[object] = providers.Dependency()
    allow_private: providers.Dependency[object] = providers.Dependency()
    tool_timeout: providers.Dependency[object] = providers.Dependency()
    default_model: providers.Dependency[object] = providers.Dependency()
    access: providers.Dependency[object] = providers.Dependency()
    new_id: providers.Dependency[object] = providers.Dependency()
    log: providers.Dependency[object] = providers.Dependency()
    mcp_configs: providers.Dependency[object] = providers.Dependency()

    models = providers.Singleton(
        Catalogue,
        default=default_model,
        access=access,
        environ=provider_environ,
        new_id=new_id,
        log=log,
    )
    servers = providers.Singleton(
        McpServers, configs=mcp_configs, project_dir=project_dir, environ=environ, log=log
    )
    finder = providers.Singleton(finder, environ)
    tools = providers.List(
        providers.Singleton(Bash, project_dir=project_dir, environ=environ, timeout=tool_timeout),
        providers.Singleton(Read, sandbox=readable),
        providers.Singleton(Write, sandbox=sandbox),
        providers.Singleton(Edit, sandbox=sandbox),
        providers.Singleton(Grep, sandbox=readable, finder=finder),
        providers.Singleton(Glob, sandbox=sandbox, finder=finder),
        providers.Singleton(TodoWrite),
        providers.Singleton(AskUserQuestion),
        providers.Singleton(ProposePlan),
        providers.Singleton(WebFetch, allow_private=allow_private),
    )
