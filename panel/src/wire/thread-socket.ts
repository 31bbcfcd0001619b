/**
 * One connection that follows one thread, and comes back by itself.
 *
 * It says hello and opens its thread, each time it comes back as well: the snapshot that answers is
 * the whole truth, so nothing has to be remembered over a cut.
 */

import { retryDelay } from "./backoff";
import { sessionSecret } from "./session";

export type Frame = { type: string } & Record<string, unknown>;

export interface SocketListener {
  frame(frame: Frame): void;
  /** It is open, and the thread was asked for. */
  opened(): void;
  closed(): void;
}

/** What this page calls itself where others are told who answered. */
export function ownName(): string {
  const agent = navigator.userAgent;
  const browser =
    [
      ["Edg/", "Edge"],
      ["Firefox/", "Firefox"],
      ["Chrome/", "Chrome"],
      ["Safari/", "Safari"],
    ].find(([mark]) => agent.includes(mark!))?.[1] ?? "a browser";
  const isPhone = /Mobi|Android/.test(agent);
  return `the panel (${browser}${isPhone ? " on a phone" : ""})`;
}

export class ThreadSocket {
  #socket: WebSocket | null = null;
  #failures = 0;
  #timer = 0;
  #isOver = false;

  constructor(
    private readonly opening: Frame,
    private readonly listener: SocketListener,
  ) {
    this.#connect();
  }

  get isOpen(): boolean {
    return this.#socket?.readyState === WebSocket.OPEN;
  }

  /** Send a frame. False, and nothing was sent, while there is no connection. */
  send(frame: Frame): boolean {
    if (!this.isOpen) return false;
    this.#socket!.send(JSON.stringify(frame));
    return true;
  }

  /** Connect anew, now: the connection is known to be dead, or there is none. */
  reconnect(): void {
    if (this.#isOver) return;
    this.#drop();
    this.#connect();
  }

  close(): void {
    this.#isOver = true;
    this.#drop();
  }

  #drop(): void {
    clearTimeout(this.#timer);
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
  }

  #connect(): void {
    const socket = new WebSocket(`ws://${location.host}/ws`);
    this.#socket = socket;
    socket.onopen = () => {
      const hello = { type: "browser_hello", client: "desktop", protocol_version: 2 };
      socket.send(JSON.stringify({ ...hello, token: sessionSecret(), name: ownName() }));
      socket.send(JSON.stringify(this.opening));
    };
    socket.onmessage = ({ data }) => {
      if (socket !== this.#socket || typeof data !== "string") return;
      const frame = JSON.parse(data) as Frame;
      if (frame.type === "browser_hello_ack") {
        this.#failures = 0;
        this.listener.opened();
      } else this.listener.frame(frame);
    };
    socket.onclose = () => {
      if (socket !== this.#socket || this.#isOver) return;
      this.#socket = null;
      this.#failures += 1;
      this.listener.closed();
      this.#timer = window.setTimeout(
        () => this.#connect(),
        retryDelay(this.#failures, Math.random()),
      );
    };
  }
}
