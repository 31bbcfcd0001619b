import { signal, useComputed } from "@preact/signals";
import { link, now, retryNow, rows, waiting } from "../app/connection";
import { route, threadHref } from "../app/routes";
import {
  ago,
  found,
  isRunning,
  keyText,
  projectName,
  rowTitle,
  sectionsOf,
  type Branch,
  type Row,
} from "../app/rows";

const search = signal("");
const isAllShown = signal(false);

// A list of thousands is drawn when somebody asks for it.
const MOST_SHOWN = 300;

export function Sidebar() {
  const count = waiting.value.length;
  return (
    <nav class="sidebar" aria-label="Conversations">
      <header class="brand">
        <a href="#/" class="brand-name">
          <img src="/icon.svg" alt="" width="24" height="24" /> roost
        </a>
        <a href="#/new" class="button small">
          New
        </a>
      </header>
      <ConnectionNote />
      <a
        href="#/inbox"
        class={`inbox-link ${count > 0 ? "has-some" : ""}`}
        aria-current={route.value.view === "inbox" ? "page" : undefined}
      >
        <span>Decisions</span>
        <span class="count" aria-label={`${count} waiting`}>
          {count}
        </span>
      </a>
      <div class="search">
        <label class="hidden" for="search">
          Search conversations
        </label>
        <input
          id="search"
          type="search"
          placeholder="Search"
          value={search.value}
          onInput={(event) => (search.value = event.currentTarget.value)}
        />
      </div>
      <List />
    </nav>
  );
}

/** Says when what is shown may be old. Nothing while all is well. */
export function ConnectionNote() {
  const state = link.value;
  if (state.state === "on") return null;
  if (state.state === "connecting") return <p class="connection">Connecting…</p>;
  const since = new Date(state.since).toLocaleTimeString([], { timeStyle: "short" });
  return (
    <p class="connection is-away" role="alert">
      <span>
        <strong>Not connected</strong> since {since}. What you see may be old.
      </span>
      <button type="button" class="link" onClick={retryNow}>
        Try now
      </button>
    </p>
  );
}

function List() {
  const shown = useComputed(() => {
    const all = [...(rows.value?.values() ?? [])].filter(isWorthShowing);
    return found(all, search.value);
  });
  if (rows.value === null) return <p class="muted list-note">Looking for your conversations…</p>;
  const all = shown.value;
  if (all.length === 0) return <Nothing />;
  const part = isAllShown.value || search.value ? all : all.slice(0, MOST_SHOWN);
  return (
    <div class="list">
      {sectionsOf(part, new Date(now.value)).map(({ title, branches }) => (
        <section key={title} aria-label={title}>
          <h2>{title}</h2>
          <ul>
            {branches.map((branch) => (
              <BranchRow key={keyText(branch.row)} branch={branch} />
            ))}
          </ul>
        </section>
      ))}
      {part.length < all.length && (
        <button type="button" class="link list-note" onClick={() => (isAllShown.value = true)}>
          Show all {all.length.toLocaleString()}
        </button>
      )}
    </div>
  );
}

function Nothing() {
  if (search.value) {
    return <p class="muted list-note">Nothing matches “{search.value}”.</p>;
  }
  return (
    <p class="muted list-note">
      No conversations yet. <a href="#/new">Start one</a>.
    </p>
  );
}

/** A thread that nobody ever spoke in is of interest only while it does something. */
function isWorthShowing(row: Row): boolean {
  const isOpen = route.value.view === "thread" && route.value.id === row.id;
  return row.title !== null || row.name !== null || isOpen || row.state === "waiting" || row.failed;
}

function BranchRow({ branch: { row, children } }: { branch: Branch }) {
  const shown = route.value;
  const isCurrent =
    shown.view === "thread" && shown.id === row.id && shown.project_dir === row.project_dir;
  return (
    <li>
      <a
        data-row
        class="row"
        href={threadHref(row)}
        title={row.project_dir}
        aria-current={isCurrent ? "page" : undefined}
      >
        <span class={`dot ${dotOf(row)}`} aria-hidden="true" />
        <span class="row-title">{rowTitle(row)}</span>
        <span class="row-facts">
          <span class="row-project">{row.parent ? "subagent" : projectName(row.project_dir)}</span>
          <span class={`row-state ${dotOf(row)}`}>{stateText(row)}</span>
        </span>
      </a>
      {children.length > 0 && (
        <ul class="children" aria-label={`Subagents of ${rowTitle(row)}`}>
          {children.map((child) => (
            <BranchRow key={keyText(child.row)} branch={child} />
          ))}
        </ul>
      )}
    </li>
  );
}

export function dotOf(row: Row): string {
  if (row.state === "waiting") return "is-waiting";
  if (isRunning(row)) return "is-running";
  return row.failed ? "is-failed" : "is-idle";
}

export function stateText(row: Row): string {
  const age = ago(row.since, now.value);
  switch (row.state) {
    case "waiting":
      return `waits for you · ${age}`;
    case "running":
      return `running · ${age}`;
    case "launching":
      return "starting";
    case "stopping":
      return "stopping";
    default: {
      const last = ago(row.updated_at ?? row.since, now.value);
      return row.failed ? `failed · ${last}` : last;
    }
  }
}
