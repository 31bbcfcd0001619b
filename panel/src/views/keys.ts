/** The keys of the whole page. Whoever is being typed into comes first. */

import { useEffect } from "preact/hooks";
import { go, route } from "../app/routes";
import { isHelpOpen } from "./Help";

export function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.matches("input, textarea, select") || target.isContentEditable;
}

export function useKeys(): void {
  useEffect(() => {
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

function pressed(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (event.key === "Escape") {
    escape(event);
    return;
  }
  if (isTyping(event.target) || isHelpOpen.value) return;
  if (KEYS[event.key]?.()) event.preventDefault();
}

const KEYS: Record<string, () => boolean> = {
  "?": () => (isHelpOpen.value = true),
  "/": () => focus("#search"),
  n: () => (go("#/new"), true),
  i: () => (go("#/inbox"), true),
  j: () => move(1),
  k: () => move(-1),
  a: () => click("approve"),
  d: () => click("decline"),
  q: () => clickFirst("[data-action=last-question]"),
};

function escape(event: KeyboardEvent): void {
  if (isHelpOpen.value) return; // the dialog's own
  if (isTyping(event.target)) (event.target as HTMLElement).blur();
  else if (route.value.view !== "list") go("#/");
}

function focus(selector: string): boolean {
  const found = document.querySelector<HTMLElement>(selector);
  found?.focus();
  return found !== null;
}

/** The next of what can be chosen: decisions where there are any in the main part, else the list. */
function move(by: number): boolean {
  const inMain = [...document.querySelectorAll<HTMLElement>(".main [data-decision]")];
  const chosen = document.activeElement?.closest<HTMLElement>("[data-decision], [data-row]");
  const isInList = chosen?.matches("[data-row]") || inMain.length === 0;
  const all = isInList ? [...document.querySelectorAll<HTMLElement>("[data-row]")] : inMain;
  const place = chosen ? all.indexOf(chosen) : -1;
  const next = place < 0 ? (by > 0 ? 0 : all.length - 1) : place + by;
  const target = all[Math.min(all.length - 1, Math.max(0, next))];
  target?.focus();
  target?.scrollIntoView({ block: "nearest" });
  return target !== undefined;
}

/** Press a button of the decision that is chosen; without a choice, of the only one there is. */
function click(action: string): boolean {
  const chosen = document.activeElement?.closest("[data-decision]");
  const all = document.querySelectorAll(".main [data-decision]");
  const decision = chosen ?? (all.length === 1 ? all[0] : null);
  const button = decision?.querySelector<HTMLButtonElement>(`[data-action=${action}]`);
  button?.click();
  return button != null;
}

function clickFirst(selector: string): boolean {
  const button = document.querySelector<HTMLButtonElement>(selector);
  button?.click();
  return button !== null;
}
