/** What a tool call is about, for people. Pure. */

import { lineDiff, type DiffLine } from "./diff";

export interface CallFacts {
  /** What it is about, in one line. */
  subject: string;
  /** A shell command, in full. */
  command?: string;
  /** A file that it changes, and how. */
  file?: string;
  diff?: DiffLine[];
  /** Everything else that was given, as readable JSON. */
  rest?: string;
}

export function factsOf(name: string, json: string): CallFacts {
  const given = parsed(json);
  if (given === null) return { subject: json, rest: json };
  const text = (key: string): string | undefined =>
    typeof given[key] === "string" ? given[key] : undefined;
  const command = text("command");
  if (name === "Bash" && command !== undefined) {
    return { subject: command, command, ...rest(given, ["command"]) };
  }
  const file = text("file_path") ?? text("path");
  const before = text("old") ?? text("old_string");
  const after = text("new") ?? text("new_string");
  if (file !== undefined && before !== undefined && after !== undefined) {
    const shown = ["file_path", "path", "old", "new", "old_string", "new_string"];
    return { subject: file, file, diff: lineDiff(before, after), ...rest(given, shown) };
  }
  const content = text("content");
  if (file !== undefined && content !== undefined) {
    const shown = ["file_path", "path", "content"];
    return { subject: file, file, diff: lineDiff("", content), ...rest(given, shown) };
  }
  return { subject: subjectOf(given), ...rest(given, []) };
}

function subjectOf(given: Record<string, unknown>): string {
  const texts = Object.values(given).filter((value) => typeof value === "string");
  const questions = given.questions;
  if (Array.isArray(questions)) {
    return questions.map((asked: { question?: string }) => asked.question ?? "").join(" ");
  }
  return texts.join(" · ");
}

function rest(given: Record<string, unknown>, shown: string[]): { rest?: string } {
  const left = Object.entries(given).filter(([key]) => !shown.includes(key));
  return left.length === 0 ? {} : { rest: JSON.stringify(Object.fromEntries(left), null, 2) };
}

function parsed(json: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(json);
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    return isObject ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}
