/** A tool call: a compact row that opens. */

import { useMemo } from "preact/hooks";
import type { CallItem } from "../agui/items";
import { factsOf, type CallFacts } from "../agui/calls";
import { inPlainSight } from "../agui/plain-sight";
import { Code } from "./Text";
import type { DiffLine } from "../agui/diff";

export function CallView({ call }: { call: CallItem }) {
  const facts = useMemo(() => factsOf(call.name, call.arguments), [call.name, call.arguments]);
  const state = call.result === null ? "open" : call.result.success ? "done" : "failed";
  return (
    <details class={`call is-${state}`}>
      <summary>
        <span class="call-mark" aria-hidden="true" />
        <span class="call-name">{call.name}</span>
        <span class="call-subject">{inPlainSight(facts.subject)}</span>
        <span class="call-state">{STATES[state]}</span>
      </summary>
      <div class="call-body">
        <Facts facts={facts} />
        <Output call={call} />
      </div>
    </details>
  );
}

const STATES = { open: "", done: "done", failed: "failed" };

/** What a call does, in full: for whoever decides about it as well. */
export function Facts({ facts }: { facts: CallFacts }) {
  return (
    <>
      {facts.command !== undefined && <Code code={inPlainSight(facts.command)} language="bash" />}
      {facts.diff !== undefined && <Diff file={inPlainSight(facts.file ?? "")} lines={facts.diff} />}
      {facts.rest !== undefined && <Code code={inPlainSight(facts.rest)} language="json" />}
    </>
  );
}

function Diff({ file, lines }: { file: string; lines: DiffLine[] }) {
  const added = lines.filter((line) => line.kind === "added").length;
  const removed = lines.filter((line) => line.kind === "removed").length;
  return (
    <figure class="diff">
      <figcaption>
        <span class="diff-file">{file}</span>
        <span class="diff-counts">
          <span class="is-added">+{added}</span> <span class="is-removed">−{removed}</span>
        </span>
      </figcaption>
      <pre tabIndex={0} aria-label={`Change of ${file}`}>
        {lines.map((line, place) => (
          <span key={place} class={`line is-${line.kind}`}>
            <span class="sign">{SIGNS[line.kind]}</span>
            {inPlainSight(line.text) + "\n"}
          </span>
        ))}
      </pre>
    </figure>
  );
}

const SIGNS = { added: "+", removed: "−", same: " " };

function Output({ call }: { call: CallItem }) {
  const { result, live, leftOut } = call;
  const text = result === null ? live : result.output || (result.success ? "" : result.error);
  if (result !== null && text === "") return <p class="muted">It printed nothing.</p>;
  return (
    <>
      {leftOut > 0 && result === null && (
        <p class="muted">{leftOut.toLocaleString()} characters are left out; the result has them.</p>
      )}
      {text !== "" && (
        <pre class={`output ${result?.success === false ? "is-failed" : ""}`} tabIndex={0} aria-label="Output">
          {text}
        </pre>
      )}
      {result !== null && !result.success && result.output !== "" && <p class="failed">{result.error}</p>}
    </>
  );
}
