/** Where the person is, in the address: a reload or a bookmark comes back to it. */

import { signal } from "@preact/signals";
import type { Key } from "./rows";

export type Route =
  | { view: "list" }
  | { view: "inbox" }
  | { view: "new" }
  | ({ view: "thread" } & Key);

export function parsed(hash: string): Route {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const given = new URLSearchParams(query);
  const [project_dir, id] = [given.get("dir"), given.get("id")];
  if (path === "thread" && project_dir && id) return { view: "thread", project_dir, id };
  if (path === "inbox" || path === "new") return { view: path };
  return { view: "list" };
}

export function threadHref({ project_dir, id }: Key): string {
  return `#/thread?${new URLSearchParams({ dir: project_dir, id })}`;
}

export const route = signal<Route>(parsed(location.hash));

addEventListener("hashchange", () => {
  route.value = parsed(location.hash);
});

export function go(href: string): void {
  location.hash = href;
}
