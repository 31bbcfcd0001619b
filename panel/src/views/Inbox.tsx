/** All open decisions of all threads, in one place. */

import { useEffect, useRef, useState } from "preact/hooks";
import { now, rowOf, rows, waiting } from "../app/connection";
import { threadHref } from "../app/routes";
import { ago, keyText, projectName, rowTitle, type Key, type Row } from "../app/rows";
import { useThread } from "../app/threads";
import { Decisions } from "./Decisions";

// Each is followed by a connection of its own: more than anybody decides at a sitting.
const MOST = 20;
// Long enough to read where a decision was made.
const SHOWN_AFTER = 8_000;

export function Inbox() {
  const shown = useShown();
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  return (
    <div class="page inbox">
      <header class="page-head">
        <a href="#/" class="back" aria-label="Back to the list">
          ←
        </a>
        <h1 ref={heading} tabIndex={-1}>
          Decisions
        </h1>
      </header>
      {shown.length === 0 && (
        <p class="empty-note">{rows.value === null ? "Looking…" : "Nothing waits for you."}</p>
      )}
      {shown.slice(0, MOST).map((key) => (
        <InboxThread key={keyText(key)} threadKey={key} />
      ))}
      {shown.length > MOST && (
        <p class="muted">{shown.length - MOST} more come up when these are decided.</p>
      )}
    </div>
  );
}

/** What waits, oldest first, and for a moment what just waited. */
function useShown(): Key[] {
  const [gone, setGone] = useState<readonly Key[]>([]);
  const before = useRef<readonly Row[]>([]);
  const open = [...waiting.value].sort((a, b) => (a.since ?? "").localeCompare(b.since ?? ""));
  useEffect(() => {
    const left = before.current.filter((row) => !open.some((other) => keyText(other) === keyText(row)));
    before.current = open;
    if (left.length === 0) return;
    const again = new Set(left.map(keyText));
    setGone((known) => [...known.filter((key) => !again.has(keyText(key))), ...left]);
    setTimeout(() => setGone((known) => known.filter((key) => !left.includes(key as Row))), SHOWN_AFTER);
  }, [open.map(keyText).join("\n\n")]);
  const isOpen = new Set(open.map(keyText));
  return [...open, ...gone.filter((key) => !isOpen.has(keyText(key)))];
}

function InboxThread({ threadKey }: { threadKey: Key }) {
  const session = useThread(threadKey);
  const row = rowOf(threadKey);
  if (row === undefined) return null;
  return (
    <article class="inbox-thread" aria-label={rowTitle(row)}>
      <header>
        <a href={threadHref(threadKey)}>{rowTitle(row)}</a>
        <span class="muted">
          {projectName(row.project_dir)}
          {row.state === "waiting" && ` · waits ${ago(row.since, now.value)}`}
        </span>
      </header>
      {session === null || session.link.value === "opening" ? (
        <p class="muted">Opening…</p>
      ) : (
        <Decided session={session} row={row} />
      )}
    </article>
  );
}

function Decided({ session, row }: { session: NonNullable<ReturnType<typeof useThread>>; row: Row }) {
  void session.version.value;
  const isOver = session.transcript.interrupts.length === 0 && row.state !== "waiting";
  const elsewhere = session.answeredElsewhere.value !== null;
  if (!isOver || elsewhere) return <Decisions session={session} />;
  return <p class="notice is-info">Answered here.</p>;
}
