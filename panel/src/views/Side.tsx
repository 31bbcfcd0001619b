/** What a thread keeps beside its messages: its plan, its jobs, what waits, what it cost. */

import { threadHref } from "../app/routes";
import type { ThreadSession } from "../app/thread-session";

interface Todo {
  content: string;
  status: string;
}

interface Job {
  id: string;
  label: string;
  status: string;
}

interface Subagent {
  label?: string;
  status?: string;
  activity?: string;
  projectDir?: string;
}

interface Queued {
  id: string;
  text: string;
}

interface Usage {
  model: string;
  inputTokens?: number;
  outputTokens?: number;
  cost?: number;
}

const isObject = (value: unknown): boolean => typeof value === "object" && value !== null;
/** Those of a worker's rows that are rows: one that is not may not take the page with it. */
const list = <T,>(value: unknown): T[] => (Array.isArray(value) ? (value.filter(isObject) as T[]) : []);

export function Side({ session }: { session: ThreadSession }) {
  void session.version.value;
  const { state } = session.transcript;
  const jobs = list<Job>((state.backgroundTasks as { jobs?: Job[] } | undefined)?.jobs);
  return (
    <div class="side">
      <Todos todos={list<Todo>(state.todos)} />
      <Subagents session={session} rows={(state.subagents ?? {}) as Record<string, Subagent>} />
      <Jobs session={session} jobs={jobs.filter((job) => job.status === "running")} />
      <Queue session={session} queue={list<Queued>(state.queue)} />
      <Cost usage={list<Usage>(state.usage)} />
    </div>
  );
}

function Todos({ todos }: { todos: Todo[] }) {
  if (todos.length === 0) return null;
  const done = todos.filter(({ status }) => status === "completed").length;
  const current = todos.find(({ status }) => status === "in_progress");
  return (
    <details class="strip todos">
      <summary>
        Plan: {done} of {todos.length}
        {current && <span class="muted"> · {current.content}</span>}
      </summary>
      <ul>
        {todos.map(({ content, status }, place) => (
          <li key={place} class={`is-${status}`}>
            <span class="hidden">{status.replace("_", " ")}: </span>
            {content}
          </li>
        ))}
      </ul>
    </details>
  );
}

/** Those that are at work; the list has all of them. */
function Subagents({ session, rows }: { session: ThreadSession; rows: Record<string, Subagent> }) {
  const shown = Object.entries(rows).filter(([, row]) => isObject(row) && row.status !== "closed");
  if (shown.length === 0) return null;
  return (
    <ul class="strip" aria-label="Subagents">
      {shown.map(([id, { label, status, activity, projectDir }]) => (
        <li key={id}>
          <a href={threadHref({ project_dir: projectDir ?? session.key.project_dir, id })}>
            {label ?? id}
          </a>
          <span class="muted">{[status, activity].filter(Boolean).join(" · ")}</span>
        </li>
      ))}
    </ul>
  );
}

function Jobs({ session, jobs }: { session: ThreadSession; jobs: Job[] }) {
  if (jobs.length === 0) return null;
  return (
    <ul class="strip jobs" aria-label="In the background">
      {jobs.map(({ id, label }) => (
        <li key={id}>
          <span>
            <span class="dot is-running" aria-hidden="true" /> {label}
          </span>
          <button type="button" class="link" onClick={() => session.command("stop_job", { id })}>
            Stop
          </button>
        </li>
      ))}
    </ul>
  );
}

function Queue({ session, queue }: { session: ThreadSession; queue: Queued[] }) {
  if (queue.length === 0) return null;
  return (
    <ul class="strip queue" aria-label="Waiting messages">
      {queue.map(({ id, text }) => (
        <li key={id}>
          <span>
            <span class="muted">next:</span> {text}
          </span>
          <button
            type="button"
            class="link"
            onClick={() => session.command("delete_queued", { id })}
          >
            Take back
          </button>
        </li>
      ))}
    </ul>
  );
}

function Cost({ usage }: { usage: Usage[] }) {
  if (usage.length === 0) return null;
  const sum = (of: (one: Usage) => number | undefined): number =>
    usage.reduce((total, one) => total + (of(one) ?? 0), 0);
  const cost = usage.some((one) => one.cost !== undefined) ? sum((one) => one.cost) : null;
  if (sum((one) => one.inputTokens) + sum((one) => one.outputTokens) === 0) return null;
  return (
    <p class="strip cost muted" aria-label="Usage">
      {usage.map(({ model }) => model).join(", ")} · {short(sum((one) => one.inputTokens))} in ·{" "}
      {short(sum((one) => one.outputTokens))} out
      {cost !== null && ` · $${cost.toFixed(cost < 1 ? 3 : 2)}`}
    </p>
  );
}

function short(tokens: number): string {
  return tokens < 1000 ? String(tokens) : `${(tokens / 1000).toFixed(tokens < 100_000 ? 1 : 0)}k`;
}
