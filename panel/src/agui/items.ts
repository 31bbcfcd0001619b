/** What a transcript shows, in order. Each item counts its changes, so that only those are drawn. */

export interface Attachment {
  name: string;
  mimeType: string;
  /** A picture's data as a URL, where the message has it. */
  url?: string;
  /** The name it was saved under, where the daemon has it. */
  saved?: string;
}

interface Base {
  id: string;
  version: number;
}

export interface UserItem extends Base {
  kind: "user";
  text: string;
  attachments: Attachment[];
  /** A message that a job left, not a person. */
  isFromJob: boolean;
}

export interface AssistantItem extends Base {
  kind: "assistant";
  text: string;
  isOpen: boolean;
  isCutOff: boolean;
}

export interface ReasoningItem extends Base {
  kind: "reasoning";
  text: string;
  isOpen: boolean;
}

export interface Result {
  success: boolean;
  output: string;
  error: string;
}

export interface CallItem extends Base {
  kind: "call";
  name: string;
  /** JSON text, as far as it came. */
  arguments: string;
  /** What it printed so far. */
  live: string;
  leftOut: number;
  result: Result | null;
}

export interface NoticeItem extends Base {
  kind: "notice";
  text: string;
  tone: "info" | "error";
}

export type Item = UserItem | AssistantItem | ReasoningItem | CallItem | NoticeItem;

/** A message as AG-UI has it in a snapshot. */
export interface Message {
  id: string;
  role: string;
  content?: unknown;
  toolCalls?: { id: string; function: { name: string; arguments: string } }[];
  toolCallId?: string;
  error?: string;
  activityType?: string;
  metadata?: Record<string, unknown>;
}

export function itemsOf(message: Message): Item[] {
  const base = { id: message.id, version: 0 };
  switch (message.role) {
    case "user":
      return [userItem(message)];
    case "assistant": {
      const text = textOf(message.content);
      const calls = (message.toolCalls ?? []).map(({ id, function: called }) =>
        callItem(id, called.name, called.arguments),
      );
      const isCutOff = message.metadata?.["roost.interrupted"] === true;
      const said: AssistantItem = { ...base, kind: "assistant", text, isOpen: false, isCutOff };
      return text || calls.length === 0 ? [said, ...calls] : calls;
    }
    case "reasoning":
      return [{ ...base, kind: "reasoning", text: textOf(message.content), isOpen: false }];
    case "activity":
      return [{ ...base, kind: "notice", text: noticeText(message.content), tone: "info" }];
    default:
      return [];
  }
}

export function userItem(message: Message): UserItem {
  const parts = Array.isArray(message.content) ? (message.content as Part[]) : [];
  const noted = message.metadata?.["roost.attachments"];
  const files = Array.isArray(noted) ? (noted as Noted[]) : [];
  return {
    kind: "user",
    id: message.id,
    version: 0,
    text: textOf(message.content),
    isFromJob: message.metadata?.["roost.job"] !== undefined,
    attachments: [
      ...parts.flatMap(pictureOf),
      ...files.map(({ name, mime_type, path }) => {
        return { name, mimeType: mime_type, saved: path.slice(path.lastIndexOf("/") + 1) };
      }),
    ],
  };
}

export function callItem(id: string, name: string, args = ""): CallItem {
  return {
    kind: "call",
    id,
    version: 0,
    name,
    arguments: args,
    live: "",
    leftOut: 0,
    result: null,
  };
}

/** A result is JSON text of our own worker; others may write what they like. */
export function resultOf(content: unknown, error?: string): Result {
  const text = textOf(content);
  try {
    const { success, output, error: failed } = JSON.parse(text) as Record<string, unknown>;
    if (typeof success === "boolean") {
      return { success, output: plain(output), error: plain(failed) };
    }
  } catch {
    // Not JSON: the text is the output.
  }
  return { success: error === undefined, output: text, error: error ?? "" };
}

export function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return (content as Part[]).flatMap((part) => (part.text === undefined ? [] : [part.text])).join("\n");
}

export function noticeText(content: unknown): string {
  if (typeof content === "object" && content !== null && "text" in content) {
    return plain(content.text);
  }
  return plain(content);
}

interface Part {
  type: string;
  text?: string;
  data?: string;
  mimeType?: string;
  filename?: string;
  source?: { value?: string; mimeType?: string };
}

interface Noted {
  name: string;
  mime_type: string;
  path: string;
}

export const PICTURE = /^image\/(png|jpeg|gif|webp)$/;

function pictureOf(part: Part): Attachment[] {
  const data = part.data ?? part.source?.value;
  const mimeType = part.mimeType ?? part.source?.mimeType ?? "";
  if (part.type === "text" || !data) return [];
  const name = part.filename ?? "attachment";
  if (!PICTURE.test(mimeType)) return [{ name, mimeType }];
  return [{ name, mimeType, url: `data:${mimeType};base64,${data}` }];
}

function plain(value: unknown): string {
  if (value === undefined || value === null) return "";
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}
