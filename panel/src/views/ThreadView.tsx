/** One thread: its head, its transcript, its decisions, and where one writes. */

import { useEffect, useRef, useState } from "preact/hooks";
import { announcement, remove, rename } from "../app/actions";
import { rowOf } from "../app/connection";
import { go } from "../app/routes";
import { projectName, rowTitle, type Key, type Row } from "../app/rows";
import type { ThreadSession } from "../app/thread-session";
import { useThread } from "../app/threads";
import { ShownThread } from "./AttachmentView";
import { Composer } from "./Composer";
import { Decisions } from "./Decisions";
import { Side } from "./Side";
import { dotOf, stateText } from "./Sidebar";
import { jumpToLastQuestion, TranscriptView } from "./TranscriptView";

export function ThreadView({ threadKey }: { threadKey: Key }) {
  const session = useThread(threadKey);
  if (session === null) return null;
  return (
    <ShownThread.Provider value={session.key}>
      <div class="thread">
      <Head session={session} row={rowOf(threadKey)} />
      <TranscriptView session={session}>
        <Tail session={session} />
      </TranscriptView>
      <Side session={session} />
      <Composer session={session} />
      <Announcer session={session} />
      </div>
    </ShownThread.Provider>
  );
}

function Head({ session, row }: { session: ThreadSession; row: Row | undefined }) {
  const [isRenaming, setRenaming] = useState(false);
  const title = row ? rowTitle(row) : "New conversation";
  useEffect(() => {
    document.title = `${title} · roost`;
    return () => void (document.title = "roost");
  }, [title]);
  return (
    <header class="page-head">
      <a href="#/" class="back" aria-label="Back to the list">
        ←
      </a>
      <div class="head-texts">
        {isRenaming ? (
          <RenameForm title={title} session={session} done={() => setRenaming(false)} />
        ) : (
          <h1>{title}</h1>
        )}
        <p class="muted head-facts">
          <span title={session.key.project_dir}>{projectName(session.key.project_dir)}</span>
          {row && <span class={`row-state ${dotOf(row)}`}>{stateText(row)}</span>}
          <LinkNote session={session} />
        </p>
      </div>
      <button
        type="button"
        class="icon"
        data-action="last-question"
        title="To your last question (q)"
        aria-label="To your last question"
        onClick={() => jumpToLastQuestion(session)}
      >
        ↑
      </button>
      <Menu session={session} row={row} rename={() => setRenaming(true)} />
    </header>
  );
}

function LinkNote({ session }: { session: ThreadSession }) {
  switch (session.link.value) {
    case "open":
      return null;
    case "opening":
      return <span>opening…</span>;
    case "away":
      return <span class="is-away">not connected, trying again</span>;
  }
}

function RenameForm({
  title,
  session,
  done,
}: {
  title: string;
  session: ThreadSession;
  done(): void;
}) {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.select(), []);
  return (
    <form
      class="rename"
      onSubmit={(event) => {
        event.preventDefault();
        const name = input.current!.value.trim();
        if (name !== "" && name !== title) void rename(session.key, name);
        done();
      }}
    >
      <label class="hidden" for="rename">
        Name
      </label>
      <input
        id="rename"
        ref={input}
        defaultValue={title}
        maxLength={200}
        onKeyDown={(event) => {
          if (event.key !== "Escape") return;
          event.preventDefault();
          done();
        }}
      />
      <button type="submit">Save</button>
    </form>
  );
}

function Menu({
  session,
  row,
  rename: beginRename,
}: {
  session: ThreadSession;
  row: Row | undefined;
  rename(): void;
}) {
  const menu = useRef<HTMLDetailsElement>(null);
  const then = (action: () => void) => () => {
    menu.current!.open = false;
    action();
  };
  useEffect(() => {
    const close = (event: Event): void => {
      const isInside = event.target instanceof Node && menu.current?.contains(event.target);
      if (!isInside && menu.current) menu.current.open = false;
    };
    addEventListener("click", close);
    return () => removeEventListener("click", close);
  }, []);
  return (
    <details class="menu" ref={menu}>
      <summary aria-label="More">⋯</summary>
      <div class="menu-items">
        <ModeChoice session={session} />
        <button type="button" onClick={then(beginRename)}>
          Rename
        </button>
        <button type="button" onClick={then(() => session.stopWorker())}>
          Stop its worker
        </button>
        {row && (
          <button type="button" class="danger" onClick={then(() => void remove(row))}>
            Delete
          </button>
        )}
        <button type="button" onClick={then(() => go("#/"))}>
          Close
        </button>
      </div>
    </details>
  );
}

export const MODES: [string, string][] = [
  ["standard", "asks before it changes or runs something"],
  ["plan", "only looks and plans"],
  ["auto", "never asks"],
  ["auto-with-judge", "a second model decides what to ask"],
];

function ModeChoice({ session }: { session: ThreadSession }) {
  return (
    <label class="menu-field">
      Mode
      <select
        value={session.mode.value ?? ""}
        onChange={(event) => session.ask("set_mode", { mode: event.currentTarget.value })}
      >
        {session.mode.value === null && <option value="">as it began</option>}
        {MODES.map(([mode]) => (
          <option key={mode} value={mode}>
            {mode}
          </option>
        ))}
      </select>
    </label>
  );
}

/** What comes behind the last item. */
function Tail({ session }: { session: ThreadSession }) {
  void session.version.value;
  const { isRunning, items, state } = session.transcript;
  const retry = state.retry as { seconds: number; reason: string } | null | undefined;
  const last = items[items.length - 1];
  const isSilent = isRunning && !(last !== undefined && "isOpen" in last && last.isOpen);
  return (
    <div class="tail">
      {items.length === 0 && session.link.value === "open" && !isRunning && (
        <p class="empty-note">Nothing was said here yet.</p>
      )}
      {retry && <p class="notice is-info">The model is busy ({retry.reason}); it is asked again.</p>}
      {isSilent && (
        <p class="working" aria-hidden="true">
          <span /> <span /> <span />
        </p>
      )}
      {session.pending.value.map(({ id, text, attachments }) => (
        <article key={id} class="said is-pending" aria-label="You, on its way">
          {attachments.map((file) => (
            <span key={file.name} class="chip">
              {file.name}
            </span>
          ))}
          <div class="said-text">{text}</div>
          <p class="muted">{session.link.value === "open" ? "sending…" : "sent when connected"}</p>
        </article>
      ))}
      <Decisions session={session} />
      {session.complaint.value !== null && (
        <p class="notice is-error" role="alert">
          {session.complaint.value}{" "}
          <button type="button" class="link" onClick={() => (session.complaint.value = null)}>
            Dismiss
          </button>
        </p>
      )}
    </div>
  );
}

/** Tells a screen reader what changed, in a sentence and not word by word. */
function Announcer({ session }: { session: ThreadSession }) {
  void session.version.value;
  const { isRunning, interrupts, items } = session.transcript;
  const state = interrupts.length > 0 ? "waiting" : isRunning ? "running" : "idle";
  const before = useRef<string | null>(null);
  useEffect(() => {
    if (before.current !== null && before.current !== state) {
      const last = items.findLast((item) => item.kind === "assistant");
      const said = last?.kind === "assistant" ? last.text.slice(0, 500) : "";
      announcement.value = {
        waiting: interrupts[0]?.message ?? "The agent waits for your decision.",
        running: "The agent works.",
        idle: `The agent is done. ${said}`,
      }[state];
    }
    if (session.link.value === "open") before.current = state;
  }, [state, session.link.value]);
  return null;
}
