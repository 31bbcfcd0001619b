/** JSON Patch (RFC 6902), as far as AG-UI's deltas use it. Pure: makes a new value. */

export interface Operation {
  op: "add" | "replace" | "remove" | "move" | "copy" | "test";
  path: string;
  from?: string;
  value?: unknown;
}

type Container = Record<string, unknown> | unknown[];

/** The value with the operations applied in order. Throws when a path leads nowhere. */
export function patched(value: unknown, operations: readonly Operation[]): unknown {
  let result = structuredClone(value);
  for (const operation of operations) result = applied(result, operation);
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
  const container = find(root, way) as Container;
  if (!Array.isArray(container)) container[last] = value;
  else if (isNew) container.splice(last === "-" ? container.length : Number(last), 0, value);
  else container[Number(last)] = value;
  return root;
}

function take(root: unknown, path: string): { root: unknown; value: unknown } {
  const way = steps(path);
  const last = way.pop();
  if (last === undefined) return { root: undefined, value: root };
  const container = find(root, way) as Container;
  if (Array.isArray(container)) return { root, value: container.splice(Number(last), 1)[0] };
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
