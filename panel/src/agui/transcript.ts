/**
 * The reducer: AG-UI events in, what a thread shows out. No I/O, no clock.
 *
 * It changes its own state in place, since a transcript of ten thousand items is not copied for a
 * word; `version` tells whoever draws what changed. An opener with an id that is known means: keep
 * what there is, what follows is appended (docs/reference/binding.md).
 */

import { patched, type Operation } from "./json-patch";
import {
  callItem,
  itemsOf,
  noticeText,
  resultOf,
  userItem,
  type CallItem,
  type Item,
  type Message,
  type NoticeItem,
} from "./items";

export type Event = { type: string } & Record<string, unknown>;

export interface Interrupt {
  id: string;
  reason: string;
  toolCallId?: string;
  message?: string;
  responseSchema?: unknown;
}

export class Transcript {
  readonly items: Item[] = [];
  state: Record<string, unknown> = {};
  runId: string | null = null;
  interrupts: Interrupt[] = [];
  version = 0;
  /** A sentence of the daemon that ended no run; whoever shows it takes it. */
  complaint: string | null = null;
  #places = new Map<string, Item>();
  #notices = 0;

  take(event: Event): void {
    this.version += 1;
    HANDLERS[event.type]?.(this, event);
  }

  get isRunning(): boolean {
    return this.runId !== null;
  }

  has(id: string): boolean {
    return this.#places.has(id);
  }

  find(id: string): Item | undefined {
    return this.#places.get(id);
  }

  call(id: string | undefined): CallItem | undefined {
    const item = id === undefined ? undefined : this.#places.get(id);
    return item?.kind === "call" ? item : undefined;
  }

  /**
   * Show these messages instead.
   *
   * A thread tells its messages anew also while it waits or works (a note of a subagent): that ends
   * neither a run nor a decision whose call is still without a result.
   */
  replaceAll(messages: readonly Message[]): void {
    this.items.length = 0;
    this.#places.clear();
    for (const message of messages) this.addMessage(message);
    this.interrupts = this.interrupts.filter(
      ({ id, toolCallId }) => this.call(toolCallId ?? id)?.result === null,
    );
  }

  /** What was open may be over: what follows says so anew. */
  reopen(): void {
    this.runId = null;
    this.interrupts = [];
  }

  addMessage(message: Message): void {
    if (message.role === "tool") {
      this.#result(message.toolCallId, message.content, message.error);
      return;
    }
    for (const item of itemsOf(message)) this.add(item);
  }

  /** The item of that id: the one there is, or the new one. */
  add<T extends Item>(item: T): T {
    const known = this.#places.get(item.id);
    if (known?.kind === item.kind) return known as T;
    this.items.push(item);
    this.#places.set(item.id, item);
    return item;
  }

  change<T extends Item>(item: T | undefined, change: (item: T) => void): void {
    if (item === undefined) return;
    change(item);
    item.version += 1;
  }

  notice(text: string, tone: NoticeItem["tone"]): void {
    this.#notices += 1;
    this.add({ kind: "notice", id: `notice-${this.#notices}`, version: 0, text, tone });
  }

  /** A run is over: nothing of it grows any more. */
  close(): void {
    this.runId = null;
    for (let place = this.items.length - 1; place >= 0; place -= 1) {
      const item = this.items[place]!;
      if (item.kind === "user") break;
      if ("isOpen" in item && item.isOpen) this.change(item, (open) => (open.isOpen = false));
    }
  }

  result(event: Event): void {
    this.#result(event.toolCallId as string, event.content, undefined);
  }

  #result(callId: string | undefined, content: unknown, error: string | undefined): void {
    this.change(this.call(callId), (call) => (call.result = resultOf(content, error)));
  }
}

type Handler = (transcript: Transcript, event: Event) => void;

const text = (value: unknown): string => (typeof value === "string" ? value : "");
const objectOf = (value: unknown): Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {};

function openText(t: Transcript, event: Event): void {
  const id = text(event.messageId);
  if (event.role === "user") t.add(userItem({ id, role: "user", content: "" }));
  else {
    const base = { id, version: 0, kind: "assistant" as const };
    t.change(t.add({ ...base, text: "", isOpen: true, isCutOff: false }), (item) => {
      item.isOpen = true;
    });
  }
}

function growText(t: Transcript, event: Event): void {
  const item = t.find(text(event.messageId));
  if (item?.kind === "assistant" || item?.kind === "user" || item?.kind === "reasoning") {
    t.change(item, (grown) => (grown.text += text(event.delta)));
  }
}

function closeText(t: Transcript, event: Event): void {
  const item = t.find(text(event.messageId));
  if (item?.kind === "assistant" || item?.kind === "reasoning") {
    t.change(item, (closed) => (closed.isOpen = false));
  }
}

function openReasoning(t: Transcript, event: Event): void {
  const id = text(event.messageId);
  t.change(t.add({ id, version: 0, kind: "reasoning", text: "", isOpen: true }), (item) => {
    item.isOpen = true;
  });
}

const HANDLERS: Record<string, Handler> = {
  MESSAGES_SNAPSHOT(t, event) {
    t.replaceAll(Array.isArray(event.messages) ? (event.messages as Message[]) : []);
  },
  RUN_STARTED(t, event) {
    t.runId = text(event.runId);
    t.interrupts = [];
    const input = event.input as { messages?: Message[] } | undefined;
    for (const message of input?.messages ?? []) t.addMessage(message);
  },
  RUN_FINISHED(t, event) {
    t.close();
    const outcome = event.outcome as { type?: string; interrupts?: Interrupt[] } | undefined;
    t.interrupts = outcome?.type === "interrupt" ? (outcome.interrupts ?? []) : [];
    if (outcome?.type === "cancelled") t.notice("Stopped.", "info");
  },
  RUN_ERROR(t, event) {
    const message = text(event.message) || "It failed, and did not say why.";
    if (event.runId === undefined) {
      t.complaint = message;
      return;
    }
    t.close();
    t.interrupts = [];
    t.notice(message, "error");
  },
  STATE_SNAPSHOT(t, event) {
    t.state = objectOf(event.snapshot);
  },
  STATE_DELTA(t, event) {
    const operations = Array.isArray(event.delta) ? (event.delta as Operation[]) : [];
    t.state = objectOf(patched(t.state, operations));
  },
  TEXT_MESSAGE_START: openText,
  TEXT_MESSAGE_CONTENT: growText,
  TEXT_MESSAGE_END: closeText,
  TEXT_MESSAGE_CHUNK(t, event) {
    openText(t, event);
    growText(t, event);
  },
  REASONING_MESSAGE_START: openReasoning,
  REASONING_MESSAGE_CONTENT: growText,
  REASONING_MESSAGE_END: closeText,
  TOOL_CALL_START(t, event) {
    t.add(callItem(text(event.toolCallId), text(event.toolCallName)));
  },
  TOOL_CALL_ARGS(t, event) {
    t.change(t.call(text(event.toolCallId)), (call) => (call.arguments += text(event.delta)));
  },
  TOOL_CALL_CHUNK(t, event) {
    t.add(callItem(text(event.toolCallId), text(event.toolCallName)));
    t.change(t.call(text(event.toolCallId)), (call) => (call.arguments += text(event.delta)));
  },
  TOOL_CALL_RESULT(t, event) {
    t.result(event);
  },
  ACTIVITY_SNAPSHOT(t, event) {
    const id = text(event.messageId);
    const base = { id, version: 0, kind: "notice" as const, tone: "info" as const };
    const shown = noticeText(event.content);
    t.change(t.add({ ...base, text: shown }), (item) => (item.text = shown));
  },
  CUSTOM(t, event) {
    if (event.name !== "roost.tool_output") return;
    const { toolCallId, text: more, leftOut } = objectOf(event.value);
    t.change(t.call(text(toolCallId)), (call) => {
      call.live += text(more);
      call.leftOut += Number(leftOut ?? 0);
    });
  },
};
