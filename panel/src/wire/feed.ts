/**
 * The feed: the whole list, then every row that changes, for as long as the page is open.
 *
 * It is the page's judge of the connection: the daemon says something every 15 seconds, so silence
 * means that nobody is there, also after a night with the lid closed.
 */

import { authorization } from "./api";
import { retryDelay } from "./backoff";
import { EventReader, type ServerEvent } from "./server-events";

const SILENCE = 45_000;
const LOOK = 5_000;

export interface FeedListener {
  /** An event of the feed. */
  said(event: ServerEvent): void;
  /** The connection came. */
  connected(): void;
  /** It is gone, since when, and when it is tried again. */
  away(retryAt: number): void;
  /** Nobody is signed in any more: there is nothing to try. */
  signedOut(): void;
}

export class Feed {
  #failures = 0;
  #timer = 0;
  #heard = 0;
  #abort: AbortController | null = null;
  #isOver = false;

  constructor(private readonly listener: FeedListener) {
    setInterval(() => this.#checkSilence(), LOOK);
    addEventListener("online", () => this.retry());
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.#checkSilence();
    });
  }

  /** Connect now, whatever was planned. */
  retry(): void {
    if (this.#abort === null && !this.#isOver) void this.#connect();
  }

  end(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#abort?.abort();
  }

  async #connect(): Promise<void> {
    clearTimeout(this.#timer);
    const abort = new AbortController();
    this.#abort = abort;
    this.#heard = Date.now();
    try {
      const response = await fetch("/api/feed", {
        headers: authorization(),
        signal: abort.signal,
      });
      if (response.status === 401) {
        this.end();
        this.listener.signedOut();
        return;
      }
      if (response.ok && response.body) await this.#read(response.body);
    } catch {
      // No connection, or one that was cut: the same as one that ended.
    }
    abort.abort();
    if (this.#abort === abort) this.#plan();
  }

  async #read(body: ReadableStream<Uint8Array>): Promise<void> {
    const reader = body.getReader();
    const decoder = new TextDecoder();
    const events = new EventReader();
    this.#failures = 0;
    this.listener.connected();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      this.#heard = Date.now();
      const piece = decoder.decode(value, { stream: true });
      for (const event of events.take(piece)) this.listener.said(event);
    }
  }

  #plan(): void {
    this.#abort = null;
    if (this.#isOver) return;
    this.#failures += 1;
    const delay = retryDelay(this.#failures, Math.random());
    this.listener.away(Date.now() + delay);
    this.#timer = window.setTimeout(() => void this.#connect(), delay);
  }

  #checkSilence(): void {
    if (this.#abort !== null && Date.now() - this.#heard > SILENCE) this.#abort.abort();
    else if (this.#abort === null && !document.hidden && this.#failures > 3) this.retry();
  }
}
