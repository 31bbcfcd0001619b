"""The operations that are not built: each says so, by the capability that it would need.

None of them sends or changes anything. One that gets built moves to `connection.operations`, and
the reference page, which is made from the two, says so by itself.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, NoReturn

from connection.failures import CapabilityUnavailable
from connection.shapes import Json


class Unbuilt:
    """What the port has and the adapters have not."""

    # Lifecycle

    async def promote_to_resident(self) -> None:
        _lacks("client_owned_sessions")

    async def dispose_owned_session(self) -> None:
        _lacks("client_owned_sessions")

    async def get_owned_session_contract_proof(self) -> Json:
        _lacks("client_owned_sessions")

    # Reads

    async def get_session_context(self) -> Json:
        _lacks("session_context")

    async def get_child_snapshots(self) -> Sequence[Json]:
        _lacks("authoritative_child_roster")

    async def get_session_header(self) -> Json:
        _lacks("session_header")

    async def get_resource_snapshot(self) -> Json:
        _lacks("resources")

    async def get_context_tree(self) -> Json:
        _lacks("session_context")

    async def get_max_depth_status(self) -> Json:
        _lacks("subagent_depth")

    async def get_heartbeat(self) -> Json | None:
        _lacks("heartbeats")

    async def list_heartbeats(self) -> Sequence[Json]:
        _lacks("heartbeat_catalog")

    async def list_cron_jobs(self, *, include_inactive: bool = False) -> Sequence[Json]:
        _lacks("schedules")

    async def get_agent_message_status(self) -> Json:
        _lacks("agent_messages")

    # Input

    async def wait_for_headless_completion(self) -> None:
        _lacks("quiescence_barrier")

    def acquire_session_input_pause(self, lease_key: str) -> AbstractAsyncContextManager[None]:
        _lacks("session_input_pause")

    async def start_side_question(
        self, question_id: str, question: str, previous_turns: Sequence[Json] = ()
    ) -> bool:
        _lacks("side_questions")

    async def abort_side_question(self, question_id: str) -> bool:
        _lacks("side_questions")

    async def execute_bash(
        self, command: str, *, exclude_from_context: bool = False, transient: bool = False
    ) -> str:
        _lacks("session_bash")

    async def execute_bash_and_wait(self, command: str) -> Json:
        _lacks("session_bash")

    async def abort_bash(self) -> None:
        _lacks("session_bash")

    async def cancel_child(self, child_id: str) -> bool:
        _lacks("authoritative_child_roster")

    # Settings

    async def set_scoped_models(self, models: Sequence[str]) -> None:
        _lacks("scoped_models")

    async def set_service_tier(self, tier: str) -> None:
        _lacks("service_tier")

    async def set_transport(self, transport: str) -> None:
        _lacks("model_transport")

    async def set_steering_mode(self, mode: Literal["all", "one-at-a-time"]) -> None:
        _lacks("queue_modes")

    async def set_follow_up_mode(self, mode: Literal["all", "one-at-a-time"]) -> None:
        _lacks("queue_modes")

    async def set_auto_retry_enabled(self, enabled: bool) -> None:
        _lacks("retry_control")

    async def set_max_depth(self, depth: int, *, is_global: bool = False) -> Json:
        _lacks("subagent_depth")

    # Context

    async def refine(
        self,
        instructions: str | None = None,
        *,
        rollback_id: str | None = None,
        is_global: bool = False,
    ) -> Json:
        _lacks("refinement")

    async def abort_branch_summary(self) -> None:
        _lacks("branch_summaries")

    async def abort_retry(self) -> None:
        _lacks("retry_control")

    # Replacement

    async def reload(self) -> None:
        _lacks("resources")

    # Scheduling

    async def add_cron_job(self, schedule: str, prompt: str) -> Json:
        _lacks("schedules")

    async def cancel_cron_job(self, job_id: str) -> bool:
        _lacks("schedules")

    async def set_heartbeat(
        self, schedule: str, instruction: str, delivery_mode: str = "steer"
    ) -> Json:
        _lacks("heartbeats")

    async def update_heartbeat(self, action: Literal["pause", "resume", "clear"]) -> Json:
        _lacks("heartbeats")

    async def manage_heartbeat(
        self, active_session_id: str, job_id: str, action: Literal["pause", "resume", "stop"]
    ) -> Json:
        _lacks("heartbeat_management")

    async def send_agent_message(self, target: str, message: str) -> Json:
        _lacks("agent_messages")

    async def pause_agent_messages(self) -> None:
        _lacks("agent_messages")

    async def resume_agent_messages(self) -> None:
        _lacks("agent_messages")

    async def clear_agent_messages(self) -> None:
        _lacks("agent_messages")

    async def respond_to_extension_ui_request(self, request_id: str, response: Json) -> None:
        _lacks("extension_ui")

    async def replace_acp_mcp_servers(
        self, servers: Sequence[Mapping[str, object]], owner_id: str
    ) -> None:
        _lacks("acp_mcp_servers")

    async def release_acp_mcp_servers(self, owner_id: str, names: Sequence[str] = ()) -> None:
        _lacks("acp_mcp_servers")

    async def submit_correlated_prompt(self, correlation_id: str, text: str) -> Json:
        _lacks("correlated_prompt_lifecycle_v1")

    async def cancel_prompt_lifecycle(self, correlation_id: str) -> bool:
        _lacks("correlated_prompt_lifecycle_v1")

    async def get_prompt_lifecycles(self) -> Sequence[Json]:
        _lacks("correlated_prompt_lifecycle_v1")


def _lacks(capability: str) -> NoReturn:
    raise CapabilityUnavailable(capability)
