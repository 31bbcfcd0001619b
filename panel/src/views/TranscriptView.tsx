/**
 * A transcript of any length. Items are in chunks; a chunk far from what is seen is an empty box of
 * its height, so that ten thousand messages cost as much as a hundred.
 */

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Item } from "../agui/items";
import type { ThreadSession } from "../app/thread-session";
import { ItemView } from "./ItemView";

const CHUNK = 40;
const GUESSED_HEIGHT = 96;
const NEAR = "1500px 0px";
// This close to the end counts as looking at the end.
const AT_END = 80;

export function TranscriptView({
  session,
  children,
}: {
  session: ThreadSession;
  children: ComponentChildren;
}) {
  const scroller = useRef<HTMLDivElement>(null);
  const end = useFollowedEnd(scroller);
  const version = session.version.value;
  const { items } = session.transcript;
  useLayoutEffect(() => end.keep(), [version]);
  const chunks: Item[][] = [];
  for (let start = 0; start < items.length; start += CHUNK) {
    chunks.push(items.slice(start, start + CHUNK));
  }
  return (
    <div class="scroller" ref={scroller} onScroll={end.look} tabIndex={0} role="region" aria-label="Conversation">
      <div class="transcript">
        {chunks.map((chunk, place) => (
          <Chunk
            key={place}
            items={chunk}
            place={place}
            isLast={place >= chunks.length - 2}
            scroller={scroller}
          />
        ))}
        {children}
      </div>
      {!end.isSeen && (
        <div class="jumps">
          <button type="button" class="jump" onClick={end.jump}>
            ↓ To the end
          </button>
        </div>
      )}
    </div>
  );
}

function Chunk({
  items,
  place,
  isLast,
  scroller,
}: {
  items: Item[];
  place: number;
  isLast: boolean;
  scroller: { current: HTMLDivElement | null };
}) {
  const box = useRef<HTMLDivElement>(null);
  const height = useRef(items.length * GUESSED_HEIGHT);
  const [isNear, setNear] = useState(isLast);
  useEffect(() => {
    const observer = new IntersectionObserver(
      ([entry]) => {
        if (!entry!.isIntersecting) height.current = entry!.boundingClientRect.height;
        setNear(entry!.isIntersecting);
      },
      { root: scroller.current, rootMargin: NEAR },
    );
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  const isDrawn = isNear || isLast;
  const stamp = items.reduce((sum, item) => sum + item.version, 0);
  const drawn = useMemo(
    () => (isDrawn ? items.map((item) => <ItemView key={item.id} item={item} />) : null),
    [isDrawn, stamp, items.length, items[0]],
  );
  const style = isDrawn ? undefined : { height: `${height.current}px` };
  return (
    <div ref={box} class="chunk" data-chunk={place} style={style}>
      {drawn}
    </div>
  );
}

/** Stays at the end while the person is there, and stays put while they are not. */
function useFollowedEnd(scroller: { current: HTMLDivElement | null }) {
  const follows = useRef(true);
  const [isSeen, setSeen] = useState(true);
  const keep = (): void => {
    const box = scroller.current;
    if (box !== null && follows.current) box.scrollTop = box.scrollHeight;
  };
  useEffect(() => {
    const observer = new ResizeObserver(keep);
    observer.observe(scroller.current!);
    observer.observe(scroller.current!.firstElementChild!);
    return () => observer.disconnect();
  }, []);
  return {
    isSeen,
    keep,
    look(): void {
      const box = scroller.current!;
      follows.current = box.scrollHeight - box.scrollTop - box.clientHeight < AT_END;
      setSeen(follows.current);
    },
    jump(): void {
      follows.current = true;
      keep();
    },
  };
}

/**
 * Bring the last thing that a person said to the top.
 *
 * Its chunk may be an empty box still: that is brought near first, and looked at again each frame.
 */
export function jumpToLastQuestion({ transcript: { items } }: ThreadSession): void {
  const scroller = document.querySelector(".scroller")!;
  const place = items.findLastIndex((item) => item.kind === "user" && !item.isFromJob);
  const item = items[place];
  if (item === undefined) return;
  const look = (left: number): void => {
    const element = scroller.querySelector<HTMLElement>(`[data-item="${CSS.escape(item.id)}"]`);
    if (element !== null) {
      element.scrollIntoView({ block: "start" });
      element.focus({ preventScroll: true });
    } else if (left > 0) {
      const chunk = scroller.querySelector(`[data-chunk="${Math.floor(place / CHUNK)}"]`);
      chunk?.scrollIntoView({ block: "nearest" });
      requestAnimationFrame(() => look(left - 1));
    }
  };
  look(60);
}
