/** Questions as a form: choices to pick, one's own words, or JSON where another shape is asked for. */

import { useId, useState } from "preact/hooks";
import { isAnswered, shapeOf, skeletonOf, whyNot, type Answer, type Question } from "../agui/answers";

export function QuestionForm({
  schema,
  questions,
  isEnabled,
  answer,
  dismiss,
}: {
  schema: unknown;
  questions: Question[];
  isEnabled: boolean;
  answer(answers: Answer[]): void;
  dismiss(): void;
}) {
  const shape = shapeOf(schema);
  const [answers, setAnswers] = useState<Answer[]>(() =>
    questions.map(() => ({ labels: [], other: shape === "json" ? skeletonOf(schema) : "" })),
  );
  const change = (place: number, changed: Answer): void => {
    setAnswers(answers.map((known, at) => (at === place ? changed : known)));
  };
  const trouble = shape === "json" ? whyNot(schema, answers[0]?.other ?? "") : null;
  const isWhole = answers.every(isAnswered) && trouble === null;
  return (
    <form
      class="questions"
      onSubmit={(event) => {
        event.preventDefault();
        if (isWhole) answer(answers);
      }}
    >
      {shape === "json" ? (
        <JsonField
          text={questions[0]!.text}
          schema={schema}
          json={answers[0]!.other}
          trouble={trouble}
          isEnabled={isEnabled}
          change={(other) => change(0, { labels: [], other })}
        />
      ) : (
        questions.map((question, place) => (
          <QuestionField
            key={place}
            question={question}
            answer={answers[place]!}
            isEnabled={isEnabled}
            isFree={shape === "answers" || question.choices.length === 0}
            change={(changed) => change(place, changed)}
          />
        ))
      )}
      <div class="decision-actions">
        <button type="submit" class="primary" data-action="approve" disabled={!isEnabled || !isWhole}>
          Answer <kbd>a</kbd>
        </button>
        <button type="button" data-action="decline" disabled={!isEnabled} onClick={dismiss}>
          Dismiss <kbd>d</kbd>
        </button>
      </div>
    </form>
  );
}

function QuestionField({
  question,
  answer,
  isEnabled,
  isFree,
  change,
}: {
  question: Question;
  answer: Answer;
  isEnabled: boolean;
  /** Own words are an answer, too. */
  isFree: boolean;
  change(changed: Answer): void;
}) {
  const name = useId();
  const pick = (label: string): void => {
    const without = answer.labels.filter((known) => known !== label);
    const isPicked = without.length < answer.labels.length;
    if (question.isMultiple) {
      change({ ...answer, labels: isPicked ? without : [...without, label] });
    } else change({ labels: [label], other: "" });
  };
  const inOwnWords = (other: string): void => {
    change({ labels: question.isMultiple ? answer.labels : [], other });
  };
  return (
    <fieldset disabled={!isEnabled}>
      <legend>
        {question.header && <span class="chip">{question.header}</span>} {question.text}
      </legend>
      {question.choices.map(({ label, description }) => (
        <label key={label} class="choice">
          <input
            type={question.isMultiple ? "checkbox" : "radio"}
            name={name}
            checked={answer.labels.includes(label)}
            onChange={() => pick(label)}
          />
          <span>
            {label}
            {description && <span class="muted"> {description}</span>}
          </span>
        </label>
      ))}
      {isFree && (
        <>
          <label class="hidden" for={`${name}-own`}>
            In your own words
          </label>
          <input
            id={`${name}-own`}
            placeholder={question.choices.length > 0 ? "Or in your own words" : "Your answer"}
            value={answer.other}
            onInput={(event) => inOwnWords(event.currentTarget.value)}
          />
        </>
      )}
    </fieldset>
  );
}

/** An answer of a shape that no form is known for: what it has to be is shown as it came. */
function JsonField({
  text,
  schema,
  json,
  trouble,
  isEnabled,
  change,
}: {
  text: string;
  schema: unknown;
  json: string;
  trouble: string | null;
  isEnabled: boolean;
  change(json: string): void;
}) {
  const id = useId();
  return (
    <fieldset disabled={!isEnabled}>
      <legend>{text}</legend>
      <details>
        <summary>What the answer has to be</summary>
        <pre tabIndex={0} aria-label="Schema">
          {JSON.stringify(schema, null, 2)}
        </pre>
      </details>
      <label class="hidden" for={id}>
        Your answer, as JSON
      </label>
      <textarea
        id={id}
        rows={5}
        value={json}
        placeholder="Your answer, as JSON"
        aria-describedby={`${id}-trouble`}
        onInput={(event) => change(event.currentTarget.value)}
      />
      <p id={`${id}-trouble`} class="muted">
        {trouble}
      </p>
    </fieldset>
  );
}
