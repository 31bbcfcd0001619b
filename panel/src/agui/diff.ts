/** What an edit changes, line by line. Pure. */

export interface DiffLine {
  kind: "same" | "added" | "removed";
  text: string;
}

// Past it (a file of thousands of changed lines) everything counts as replaced: still true.
const MOST_CELLS = 4_000_000;

export function lineDiff(before: string, after: string): DiffLine[] {
  const old = linesOf(before);
  const now = linesOf(after);
  let head = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) head += 1;
  let tail = 0;
  while (
    tail < old.length - head &&
    tail < now.length - head &&
    old[old.length - 1 - tail] === now[now.length - 1 - tail]
  ) {
    tail += 1;
  }
  return [
    ...old.slice(0, head).map(same),
    ...changed(old.slice(head, old.length - tail), now.slice(head, now.length - tail)),
    ...old.slice(old.length - tail).map(same),
  ];
}

function changed(old: string[], now: string[]): DiffLine[] {
  if (old.length * now.length > MOST_CELLS) return [...old.map(removed), ...now.map(added)];
  const width = now.length + 1;
  // common[i][j]: the longest common row of lines behind old[i] and now[j].
  const common = new Uint32Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = now.length - 1; j >= 0; j -= 1) {
      common[i * width + j] =
        old[i] === now[j]
          ? common[(i + 1) * width + j + 1]! + 1
          : Math.max(common[(i + 1) * width + j]!, common[i * width + j + 1]!);
    }
  }
  const lines: DiffLine[] = [];
  let i = 0;
  let j = 0;
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      lines.push(same(old[i]!));
      i += 1;
      j += 1;
    } else if (
      j === now.length ||
      (i < old.length && common[(i + 1) * width + j]! >= common[i * width + j + 1]!)
    ) {
      lines.push(removed(old[i]!));
      i += 1;
    } else {
      lines.push(added(now[j]!));
      j += 1;
    }
  }
  return lines;
}

function linesOf(text: string): string[] {
  return text === "" ? [] : text.replace(/\n$/, "").split("\n");
}

const same = (text: string): DiffLine => ({ kind: "same", text });
const added = (text: string): DiffLine => ({ kind: "added", text });
const removed = (text: string): DiffLine => ({ kind: "removed", text });
