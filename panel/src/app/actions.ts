/** What a person does to a thread from the list or its menu, and what is said about it. */

import { signal } from "@preact/signals";
import { Failed, post } from "../wire/api";
import { go } from "./routes";
import { rowTitle, type Key, type Row } from "./rows";
import { drop } from "./threads";

export interface Toast {
  id: number;
  text: string;
  action?: { label: string; run: () => void };
}

export const toasts = signal<readonly Toast[]>([]);
/** Said to screen readers, politely. */
export const announcement = signal("");

let count = 0;

export function say(text: string, action?: Toast["action"]): void {
  count += 1;
  const toast = { id: count, text, ...(action ? { action } : {}) };
  toasts.value = [...toasts.value.slice(-2), toast];
  setTimeout(() => dismiss(toast.id), action ? 15_000 : 7_000);
}

export function dismiss(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

export async function rename({ project_dir, id }: Key, name: string): Promise<void> {
  await said(post("/api/rename", { project_dir, id, name }));
}

/** Delete at once, and offer to take it back: nothing asks first. */
export async function remove(row: Row): Promise<void> {
  const { project_dir, id } = row;
  if (!(await said(post("/api/delete", { project_dir, id })))) return;
  drop(row);
  go("#/");
  say(`“${rowTitle(row)}” is deleted.`, {
    label: "Undo",
    run: () => void said(post("/api/restore", { project_dir, id })),
  });
}

async function said(request: Promise<unknown>): Promise<boolean> {
  try {
    await request;
    return true;
  } catch (error) {
    say(error instanceof Failed ? error.message : "It failed. Nothing was changed.");
    return false;
  }
}
