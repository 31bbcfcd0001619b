/** The list of threads: what it holds, and how it is ordered for people. Pure. */

export interface Row {
  project_dir: string;
  id: string;
  slug: string | null;
  title: string | null;
  name: string | null;
  updated_at: string | null;
  state: string;
  since: string | null;
  failed: boolean;
  interrupts: string[];
  followers: number;
  answered_by: string | null;
  parent: string | null;
}

export interface Key {
  project_dir: string;
  id: string;
}

export interface Branch {
  row: Row;
  children: Branch[];
}

export interface Section {
  title: string;
  branches: Branch[];
}

export const keyText = ({ project_dir, id }: Key): string => `${project_dir}\n${id}`;

export const rowTitle = (row: Row): string => row.name ?? row.title ?? "New conversation";

export const projectName = (dir: string): string => dir.split("/").filter(Boolean).pop() ?? dir;

export const isRunning = (row: Row): boolean => row.state === "running" || row.state === "launching";

/** Rows that match the search, with the parents of those that do. */
export function found(rows: readonly Row[], search: string): Row[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [...rows];
  const matching = rows.filter((row) => {
    const text = `${rowTitle(row)} ${row.title ?? ""} ${row.project_dir} ${row.id}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  const parents = new Set(matching.map((row) => row.parent));
  const shown = new Set(matching);
  return rows.filter((row) => shown.has(row) || parents.has(row.id));
}

/** Sections in the order of what wants a person first, then by day. */
export function sectionsOf(rows: readonly Row[], now: Date): Section[] {
  const sections = new Map<string, Branch[]>();
  for (const branch of branchesOf(rows)) {
    const title = sectionOf(branch, now);
    sections.set(title, [...(sections.get(title) ?? []), branch]);
  }
  const order = ["Waiting for you", "Running"];
  return [...sections]
    .map(([title, branches]) => ({ title, branches: branches.sort(newestFirst) }))
    .sort((a, b) => rank(a, order) - rank(b, order) || newestFirst(a.branches[0]!, b.branches[0]!));
}

function rank({ title }: Section, order: string[]): number {
  const place = order.indexOf(title);
  return place < 0 ? order.length : place;
}

function branchesOf(rows: readonly Row[]): Branch[] {
  const branches = new Map(rows.map((row) => [keyText(row), { row, children: [] as Branch[] }]));
  const byId = new Map<string, Branch[]>();
  for (const branch of branches.values()) {
    byId.set(branch.row.id, [...(byId.get(branch.row.id) ?? []), branch]);
  }
  const roots: Branch[] = [];
  for (const branch of branches.values()) {
    const { parent, project_dir } = branch.row;
    // A subagent may work in a folder of its own: then the only thread of that id is above it.
    const named = parent === null ? [] : (byId.get(parent) ?? []);
    const above = named.find(({ row }) => row.project_dir === project_dir)
      ?? (named.length === 1 ? named[0] : undefined);
    if (above === undefined) roots.push(branch);
    else above.children.push(branch);
  }
  return roots;
}

function anyState(branch: Branch, has: (row: Row) => boolean): boolean {
  return has(branch.row) || branch.children.some((child) => anyState(child, has));
}

function sectionOf(branch: Branch, now: Date): string {
  if (anyState(branch, (row) => row.state === "waiting")) return "Waiting for you";
  if (anyState(branch, isRunning)) return "Running";
  return dayOf(new Date(stampOf(branch)), now);
}

/** The day, as people say it. */
export function dayOf(moment: Date, now: Date): string {
  const days = Math.round((startOfDay(now) - startOfDay(moment)) / 86_400_000);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  if (days < 7) return "This week";
  if (days < 31) return "This month";
  return moment.toLocaleDateString(undefined, { month: "long", year: "numeric" });
}

function startOfDay(moment: Date): number {
  return new Date(moment.getFullYear(), moment.getMonth(), moment.getDate()).getTime();
}

function stampOf({ row, children }: Branch): number {
  const own = Date.parse(row.updated_at ?? row.since ?? "") || 0;
  return Math.max(own, ...children.map(stampOf));
}

function newestFirst(a: Branch, b: Branch): number {
  return stampOf(b) - stampOf(a);
}

/** How long ago, in the fewest words. */
export function ago(stamp: string | null, now: number): string {
  if (stamp === null) return "";
  const seconds = Math.max(0, (now - Date.parse(stamp)) / 1000);
  if (seconds < 45) return "now";
  if (seconds < 3600) return `${Math.max(1, Math.round(seconds / 60))} min`;
  if (seconds < 86_400) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}
