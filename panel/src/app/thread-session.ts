/** One followed thread: its transcript, its connection, and what a person does to it. */

import { signal } from "@preact/signals";
import { textOf, type Attachment } from "../agui/items";
import { Transcript, type Interrupt } from "../agui/transcript";
import { ThreadSocket, type Frame } from "../wire/thread-socket";
import type { Key } from "./rows";

/** The id of the one command whose answer is for the page itself. */
const STATE = "panel-state";

interface StateData {
  state?: Record<string, unknown>;
  queue?: { id: string; content?: unknown }[];
  mode?: string | null;
}

export interface Options {
  model?: string;
  mode?: string;
}

export interface Upload extends Attachment {
  data: string;
}

export interface Skill {
  name: string;
  description: string;
}

/** A message on its way: kept until the thread shows it, and sent again after a cut. */
export interface Pending {
  id: string;
  text: string;
  attachments: Upload[];
}

export interface Resume {
  interruptId: string;
  status: "resolved" | "cancelled";
  payload?: unknown;
}

/** Where a decision went that this page did not make. */
export interface AnsweredElsewhere {
  interrupts: Interrupt[];
  at: number;
}

export class ThreadSession {
  readonly transcript = new Transcript();
  /** Moves, at most once a frame, when the transcript changed. */
  readonly version = signal(0);
  readonly link = signal<"opening" | "open" | "away">("opening");
  readonly pending = signal<readonly Pending[]>([]);
  /** Our answer is on its way. */
  readonly isAnswering = signal(false);
  readonly answeredElsewhere = signal<AnsweredElsewhere | null>(null);
  readonly complaint = signal<string | null>(null);
  readonly history = signal<readonly string[]>([]);
  readonly skills = signal<readonly Skill[] | null>(null);
  readonly models = signal<{ models: string[]; current: string } | null>(null);
  readonly mode = signal<string | null>(null);
  #socket: ThreadSocket;
  #isDrawing = false;
  #wantsSnapshot = true;

  constructor(
    readonly key: Key,
    options: Options,
  ) {
    const opening = { type: "resume_conversation", ...key, ...options };
    this.#socket = new ThreadSocket(opening, {
      opened: () => (this.#wantsSnapshot = true),
      closed: () => {
        this.link.value = "away";
        this.isAnswering.value = false;
      },
      frame: (frame) => this.#take(frame),
    });
  }

  reconnect(): void {
    if (this.link.value === "open") this.link.value = "away";
    this.#socket.reconnect();
  }

  close(): void {
    this.#socket.close();
  }

  /** Say something. It stays in `pending` until the thread shows it. */
  say(text: string, attachments: Upload[]): void {
    const message = { id: crypto.randomUUID(), text, attachments };
    this.pending.value = [...this.pending.value, message];
    if (this.link.value === "open") this.#sendMessage(message);
  }

  /** End the open run. */
  stop(): boolean {
    return this.#socket.send({ type: "interrupt" });
  }

  /** End the thread's worker, too. */
  stopWorker(): boolean {
    return this.#socket.send({ type: "stop_thread", ...this.key });
  }

  /** Answer all that is open, at once. */
  answer(resume: Resume[]): void {
    const input = { messages: [], resume };
    if (this.#socket.send({ type: "run_agent_input", input })) this.isAnswering.value = true;
  }

  command(name: string, args: object): boolean {
    return this.#socket.send({ type: "command", id: crypto.randomUUID(), name, args });
  }

  ask(type: string, members: object = {}): boolean {
    return this.#socket.send({ type, ...members });
  }

  #take(frame: Frame): void {
    switch (frame.type) {
      case "history":
        this.history.value = frame.history as string[];
        return;
      case "skills":
        this.skills.value = frame.skills as Skill[];
        return;
      case "models":
        this.models.value = { models: frame.models as string[], current: String(frame.current) };
        return;
      case "mode":
        this.mode.value = String(frame.mode);
        return;
      case "command_result":
        if (frame.id === STATE) this.#takeState(frame.data as StateData | undefined);
        else if (frame.success !== true) this.complaint.value = String(frame.error);
        return;
    }
    const open = this.transcript.interrupts;
    if (frame.type === "MESSAGES_SNAPSHOT" && this.#wantsSnapshot) this.transcript.reopen();
    this.transcript.take(frame);
    if (frame.type === "MESSAGES_SNAPSHOT" && this.#wantsSnapshot) this.#opened();
    if (frame.type === "RUN_STARTED" && open.length > 0) this.#answered(open);
    if (frame.type === "RUN_FINISHED") this.answeredElsewhere.value = null;
    if (this.transcript.complaint !== null) {
      this.complaint.value = this.transcript.complaint;
      this.transcript.complaint = null;
      this.isAnswering.value = false;
    }
    this.#settlePending();
    this.#draw();
  }

  #opened(): void {
    this.#wantsSnapshot = false;
    this.link.value = "open";
    // One whose id the conversation has already is dropped by the worker, so nothing runs twice.
    for (const message of this.pending.value) {
      if (!this.transcript.has(message.id)) this.#sendMessage(message);
    }
    this.#askState();
  }

  #answered(interrupts: Interrupt[]): void {
    if (this.isAnswering.value) this.isAnswering.value = false;
    else this.answeredElsewhere.value = { interrupts, at: Date.now() };
  }

  #sendMessage({ id, text, attachments }: Pending): void {
    const parts = attachments.map(({ name, mimeType, data }) => {
      return { type: "image", mimeType, data, filename: name };
    });
    const words = text === "" ? [] : [{ type: "text", text }];
    const content = parts.length === 0 ? text : [...words, ...parts];
    const input = { messages: [{ id, role: "user", content }] };
    this.#socket.send({ type: "run_agent_input", input });
    if (this.transcript.interrupts.length > 0) this.#askState();
  }

  /** No event tells the state of a thread that runs nothing; its worker does. */
  #askState(): void {
    this.#socket.send({ type: "command", id: STATE, name: "get_state", args: {} });
  }

  #takeState(data: StateData | undefined): void {
    if (data === undefined) return;
    this.mode.value = data.mode ?? this.mode.value;
    // In a run, its events are newer than this.
    if (this.transcript.isRunning) return;
    const queue = (data.queue ?? []).map(({ id, content }) => ({ id, text: textOf(content) }));
    this.transcript.state = { ...data.state, queue };
    this.#settlePending();
    this.#draw();
  }

  #settlePending(): void {
    if (this.pending.value.length === 0) return;
    const queue = (this.transcript.state.queue ?? []) as { id: string }[];
    const shown = (id: string): boolean =>
      this.transcript.has(id) || queue.some((queued) => queued.id === id);
    const left = this.pending.value.filter((message) => !shown(message.id));
    if (left.length < this.pending.value.length) this.pending.value = left;
  }

  /** Many words a frame, one drawing. A page in the background draws on a slow clock. */
  #draw(): void {
    if (this.#isDrawing) return;
    this.#isDrawing = true;
    const draw = (): void => {
      this.#isDrawing = false;
      this.version.value += 1;
    };
    if (document.hidden) setTimeout(draw, 250);
    else requestAnimationFrame(draw);
  }
}
