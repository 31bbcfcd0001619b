/**
 * What a suspended thread waits for: its approvals with all that they would do, its questions as
 * forms. All of a thread's decisions leave as one answer, when the last of them is made.
 */

import { useEffect, useState } from "preact/hooks";
import { payloadOf, questionsOf, shapeOf } from "../agui/answers";
import { factsOf } from "../agui/calls";
import { inPlainSight } from "../agui/plain-sight";
import type { CallItem } from "../agui/items";
import type { Interrupt } from "../agui/transcript";
import { rowOf } from "../app/connection";
import type { Resume, ThreadSession } from "../app/thread-session";
import { Facts } from "./CallView";
import { QuestionForm } from "./QuestionForm";

export function Decisions({ session }: { session: ThreadSession }) {
  void session.version.value;
  const { interrupts } = session.transcript;
  const [made, setMade] = useState<ReadonlyMap<string, Resume>>(new Map());
  const ids = interrupts.map(({ id }) => id).join("\n");
  useEffect(() => setMade(new Map()), [ids]);
  if (interrupts.length === 0) return <AnsweredElsewhere session={session} />;

  const decide = (resume: Resume): void => {
    const all = new Map(made).set(resume.interruptId, resume);
    setMade(all);
    if (interrupts.every(({ id }) => all.has(id))) session.answer([...all.values()]);
  };
  const canAnswer = session.link.value === "open" && !session.isAnswering.value;
  return (
    <div class="decisions">
      {interrupts.map((interrupt) => (
        <Decision
          key={interrupt.id}
          session={session}
          interrupt={interrupt}
          made={made.get(interrupt.id)}
          canAnswer={canAnswer}
          decide={decide}
        />
      ))}
      {session.isAnswering.value && <p class="muted">Sending your answer…</p>}
      {session.link.value !== "open" && <p class="muted">Not connected: it can be answered later.</p>}
    </div>
  );
}

interface DecisionProps {
  session: ThreadSession;
  interrupt: Interrupt;
  made: Resume | undefined;
  canAnswer: boolean;
  decide(resume: Resume): void;
}

function Decision(props: DecisionProps) {
  const { session, interrupt, made } = props;
  const call = session.transcript.call(interrupt.toolCallId ?? interrupt.id);
  const isQuestion = interrupt.reason === "input_required";
  const questions = questionsOf(interrupt.responseSchema, call?.arguments ?? "", interrupt.message ?? "");
  const title = isQuestion ? "The agent asks" : approvalTitle(call);
  return (
    <section data-decision class="decision" tabIndex={-1} aria-label={title}>
      <h2>{title}</h2>
      {isQuestion ? (
        <QuestionForm
          schema={interrupt.responseSchema}
          questions={questions}
          isEnabled={props.canAnswer && made === undefined}
          answer={(answers) => {
            const payload = payloadOf(shapeOf(interrupt.responseSchema), questions, answers);
            props.decide({ interruptId: interrupt.id, status: "resolved", payload });
          }}
          dismiss={() => props.decide({ interruptId: interrupt.id, status: "cancelled" })}
        />
      ) : (
        <Approval {...props} json={call?.arguments ?? ""} name={call?.name ?? ""} />
      )}
      {made !== undefined && session.transcript.interrupts.length > 1 && (
        <p class="muted">
          {made.status === "resolved" ? "Yes" : "No"}: sent when the others are decided.
        </p>
      )}
    </section>
  );
}

function approvalTitle(call: CallItem | undefined): string {
  if (call === undefined) return "May it go on?";
  const facts = factsOf(call.name, call.arguments);
  if (facts.command !== undefined) return "May it run this?";
  return facts.diff === undefined ? `May it use ${call.name}?` : `May it change ${inPlainSight(facts.file ?? "")}?`;
}

function Approval({
  interrupt,
  name,
  json,
  made,
  canAnswer,
  decide,
}: DecisionProps & { name: string; json: string }) {
  const [reason, setReason] = useState("");
  const facts = factsOf(name, json);
  const isEnabled = canAnswer && made === undefined;
  const decline = (): void => {
    const said = reason.trim();
    const payload = said === "" ? {} : { payload: { approved: false, reason: said } };
    decide({ interruptId: interrupt.id, status: "cancelled", ...payload });
  };
  return (
    <>
      {json === "" ? <p>{interrupt.message}</p> : <Facts facts={facts} />}
      <div class="decision-actions">
        <button
          type="button"
          class="primary"
          data-action="approve"
          disabled={!isEnabled}
          onClick={() => decide({ interruptId: interrupt.id, status: "resolved" })}
        >
          Approve <kbd>a</kbd>
        </button>
        <button type="button" data-action="decline" disabled={!isEnabled} onClick={decline}>
          Decline <kbd>d</kbd>
        </button>
        <label class="hidden" for={`reason-${interrupt.id}`}>
          Why not: the agent reads it
        </label>
        <input
          id={`reason-${interrupt.id}`}
          class="reason"
          placeholder="Why not? (optional, the agent reads it)"
          value={reason}
          disabled={!isEnabled}
          onInput={(event) => setReason(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && reason.trim() !== "") decline();
          }}
        />
      </div>
    </>
  );
}

/** A decision that somebody made on another screen is no question any more. */
function AnsweredElsewhere({ session }: { session: ThreadSession }) {
  const elsewhere = session.answeredElsewhere.value;
  if (elsewhere === null) return null;
  const where = rowOf(session.key)?.answered_by ?? "another client";
  return (
    <p class="notice is-info" role="status">
      Answered in {where}.
    </p>
  );
}
