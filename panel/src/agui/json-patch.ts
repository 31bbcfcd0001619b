/**
 * JSON Patch (RFC 6902), as far as AG-UI's deltas use it. Pure: makes a new value.
 *
 * More lenient than the RFC for a page that came late: an object on the way that it was never told
 * of is made, and what leads nowhere is left out without the other operations.
 */

export interface Operation {
  op: "add" | "replace" | "remove" | "move" | "copy" | "test";
  path: string;
  from?: string;
  value?: unknown;
}

type Container = Record<string, unknown> | unknown[];

/** The value with those of the operations applied, in order, that lead somewhere. */
export function patched(value: unknown, operations: readonly Operation[]): unknown {
  let result = structuredClone(value);
  for (const operation of operations) {
    try {
      result = applied(result, operation);
    } catch {
      // It changes what this page was not told yet; the next snapshot of the state has it.
    }
  }
  return result;
}

function applied(root: unknown, { op, path, from, value }: Operation): unknown {
  switch (op) {
    case "add":
    case "replace":
      return put(root, path, value, op === "add");
    case "remove":
      return take(root, path).root;
    case "move": {
      const taken = take(root, from ?? "");
      return put(taken.root, path, taken.value, true);
    }
    case "copy":
      return put(root, path, structuredClone(find(root, steps(from ?? ""))), true);
    case "test":
      return root;
  }
}

function put(root: unknown, path: string, value: unknown, isNew: boolean): unknown {
  const way = steps(path);
  const last = way.pop();
  if (last === undefined) return value;
  const container = made(root, way);
  if (!Array.isArray(container)) container[last] = value;
  else if (isNew) container.splice(placeIn(container.length, last), 0, value);
  else container[placeIn(container.length - 1, last)] = value;
  return root;
}

/** A place in an array, never past its end: a hole would be an item that is nothing. */
function placeIn(most: number, step: string): number {
  const place = step === "-" ? most : Number(step);
  if (!Number.isInteger(place) || place < 0 || place > most) throw new Error("no such place");
  return place;
}

/** The container at the end of a way; objects that are missing on it are made. */
function made(root: unknown, way: readonly string[]): Container {
  let place = find(root, []) as Container;
  for (const step of way) {
    if (!Array.isArray(place)) place[step] ??= {};
    place = find(place, [step]) as Container;
  }
  return place;
}

function take(root: unknown, path: string): { root: unknown; value: unknown } {
  const way = steps(path);
  const last = way.pop();
  if (last === undefined) return { root: undefined, value: root };
  const container = find(root, way) as Container;
  if (Array.isArray(container)) {
    return { root, value: container.splice(placeIn(container.length - 1, last), 1)[0] };
  }
  if (!Object.hasOwn(container, last)) throw new Error("no such place");
  const value = container[last];
  delete container[last];
  return { root, value };
}

function find(root: unknown, way: readonly string[]): unknown {
  let place = root;
  for (const step of way) {
    if (typeof place !== "object" || place === null) throw new Error(`no such place: ${step}`);
    place = (place as Record<string, unknown>)[step];
  }
  if (typeof place !== "object" || place === null) throw new Error("no such place");
  return place;
}

function steps(path: string): string[] {
  const way = path.split("/").slice(1).map(unescaped);
  // Names that would reach what every object has are nobody's data.
  if (way.some((step) => step === "__proto__" || step === "constructor")) {
    throw new Error("no such place");
  }
  return way;
}

function unescaped(step: string): string {
  return step.replaceAll("~1", "/").replaceAll("~0", "~");
}
