/** One item of a transcript, drawn again only when it changed. */

import { useMemo } from "preact/hooks";
import type { Item, UserItem, AssistantItem, ReasoningItem } from "../agui/items";
import { artifactsIn } from "../agui/artifacts";
import { AttachmentView } from "./AttachmentView";
import { CallView } from "./CallView";
import { CopyButton, Markdown } from "./Text";

export function ItemView({ item }: { item: Item }) {
  return useMemo(() => drawn(item), [item, item.version]);
}

function drawn(item: Item) {
  switch (item.kind) {
    case "user":
      return <Said item={item} />;
    case "assistant":
      return <Answered item={item} />;
    case "reasoning":
      return <Reasoned item={item} />;
    case "call":
      return (
        <>
          <CallView call={item} />
          {item.result && <Artifacts text={item.result.output} />}
        </>
      );
    case "notice":
      return <p class={`notice is-${item.tone}`}>{item.text}</p>;
  }
}

function Said({ item }: { item: UserItem }) {
  if (item.isFromJob) return <p class="notice is-info">{item.text}</p>;
  return (
    <article class="said" data-item={item.id} tabIndex={-1} aria-label="You">
      {item.attachments.map((file, place) => (
        <AttachmentView key={place} file={file} />
      ))}
      {item.text && <div class="said-text">{item.text}</div>}
    </article>
  );
}

function Answered({ item }: { item: AssistantItem }) {
  if (item.text === "" && !item.isOpen) return null;
  return (
    <article class={`answered ${item.isOpen ? "is-open" : ""}`} aria-label="Agent">
      <Markdown text={item.text} isOpen={item.isOpen} />
      {item.isCutOff && <p class="muted">The rest was cut off.</p>}
      {!item.isOpen && (
        <>
          <Artifacts text={item.text} />
          <CopyButton text={item.text} what="answer" />
        </>
      )}
    </article>
  );
}

function Reasoned({ item }: { item: ReasoningItem }) {
  return (
    <details class="reasoning">
      <summary>{item.isOpen ? "Thinking…" : "Thought"}</summary>
      <Markdown text={item.text} isOpen={item.isOpen} />
    </details>
  );
}

/** Files that the agent made, where they are named by their path. */
function Artifacts({ text }: { text: string }) {
  const found = artifactsIn(text);
  if (found.length === 0) return null;
  return (
    <ul class="artifacts" aria-label="Files">
      {found.map(({ href, name, isPicture }) => (
        <li key={href}>
          <a href={href} target="_blank" rel="noopener noreferrer" class="chip">
            {isPicture && (
              <img
                src={href}
                alt=""
                loading="lazy"
                onError={(event) => (event.currentTarget.hidden = true)}
              />
            )}
            {name}
          </a>
        </li>
      ))}
    </ul>
  );
}
