/** The page's one view of the daemon: who is there, the list, and whether it can be trusted. */

import { batch, computed, signal } from "@preact/signals";
import { Feed } from "../wire/feed";
import { forgetSession, sessionSecret } from "../wire/session";
import { keyText, type Key, type Row } from "./rows";
import { reconnectThreads } from "./threads";

export type Link =
  | { state: "connecting" }
  | { state: "on" }
  | { state: "away"; since: number; retryAt: number };

export const link = signal<Link>({ state: "connecting" });
export const isSignedIn = signal(sessionSecret() !== null);
/** Null until the first list came. */
export const rows = signal<ReadonlyMap<string, Row> | null>(null);
/** A clock for ages; it moves slowly. */
export const now = signal(Date.now());

export const waiting = computed(() =>
  [...(rows.value?.values() ?? [])].filter((row) => row.state === "waiting"),
);
export const projects = computed(() => {
  const dirs = [...(rows.value?.values() ?? [])].map((row) => row.project_dir);
  return [...new Set(dirs)];
});

let feed: Feed | null = null;
let wasAway = false;

export function rowOf(key: Key): Row | undefined {
  return rows.value?.get(keyText(key));
}

/** Begin to listen. Once a page. */
export function connect(): void {
  if (feed !== null || !isSignedIn.value) return;
  setInterval(() => (now.value = Date.now()), 10_000);
  feed = new Feed({
    connected() {
      link.value = { state: "on" };
      if (wasAway) reconnectThreads();
      wasAway = false;
    },
    away(retryAt) {
      const since = link.value.state === "away" ? link.value.since : Date.now();
      link.value = { state: "away", since, retryAt };
      wasAway = true;
    },
    signedOut() {
      forgetSession();
      isSignedIn.value = false;
      feed = null;
    },
    said({ event, data }) {
      batch(() => take(event, JSON.parse(data)));
    },
  });
  feed.retry();
}

export function retryNow(): void {
  feed?.retry();
}

function take(event: string, data: unknown): void {
  now.value = Date.now();
  if (event === "threads") {
    rows.value = new Map((data as Row[]).map((row) => [keyText(row), row]));
    return;
  }
  const changed = new Map(rows.value ?? []);
  if (event === "thread") changed.set(keyText(data as Row), data as Row);
  else if (event === "gone") changed.delete(keyText(data as Key));
  rows.value = changed;
}
