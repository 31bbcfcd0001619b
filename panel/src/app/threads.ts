/** The threads that this page follows now, each by one connection, shared by whoever shows it. */

import { useEffect, useState } from "preact/hooks";
import { keyText, type Key } from "./rows";
import { ThreadSession, type Options } from "./thread-session";

interface Held {
  session: ThreadSession;
  users: number;
  timer: number;
}

const held = new Map<string, Held>();

// Long enough for a look at the list and back, without a new snapshot.
const LINGER = 20_000;

/** The session of a thread, opened now if need be. Give it back with `release`. */
export function acquire(key: Key, options: Options = {}): ThreadSession {
  const text = keyText(key);
  let entry = held.get(text);
  if (entry === undefined) {
    entry = { session: new ThreadSession(key, options), users: 0, timer: 0 };
    held.set(text, entry);
  }
  clearTimeout(entry.timer);
  entry.users += 1;
  return entry.session;
}

export function release(session: ThreadSession): void {
  const text = keyText(session.key);
  const entry = held.get(text);
  if (entry === undefined || entry.session !== session) return;
  entry.users -= 1;
  if (entry.users > 0) return;
  entry.timer = window.setTimeout(() => {
    held.delete(text);
    session.close();
  }, LINGER);
}

/** Leave a thread at once: it was deleted. */
export function drop(key: Key): void {
  const entry = held.get(keyText(key));
  held.delete(keyText(key));
  entry?.session.close();
}

/** The daemon was away: connections that still look open may be dead. */
export function reconnectThreads(): void {
  for (const { session } of held.values()) session.reconnect();
}

/** A thread's session for as long as a component is shown. */
export function useThread(key: Key): ThreadSession | null {
  const [session, setSession] = useState<ThreadSession | null>(null);
  useEffect(() => {
    const acquired = acquire(key);
    setSession(acquired);
    return () => release(acquired);
  }, [key.project_dir, key.id]);
  return session?.key.id === key.id && session.key.project_dir === key.project_dir ? session : null;
}
