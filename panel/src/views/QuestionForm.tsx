/** Questions as a form: choices to pick, or one's own words. */

import { useId, useState } from "preact/hooks";
import { isAnswered, type Answer, type Question } from "../agui/answers";

export function QuestionForm({
  questions,
  isEnabled,
  answer,
  dismiss,
}: {
  questions: Question[];
  isEnabled: boolean;
  answer(questions: Question[], answers: Answer[]): void;
  dismiss(): void;
}) {
  const [answers, setAnswers] = useState<Answer[]>(questions.map(() => ({ labels: [], other: "" })));
  const change = (place: number, changed: Answer): void => {
    setAnswers(answers.map((known, at) => (at === place ? changed : known)));
  };
  const isWhole = answers.every(isAnswered);
  return (
    <form
      class="questions"
      onSubmit={(event) => {
        event.preventDefault();
        if (isWhole) answer(questions, answers);
      }}
    >
      {questions.map((question, place) => (
        <QuestionField
          key={place}
          question={question}
          answer={answers[place]!}
          isEnabled={isEnabled}
          change={(changed) => change(place, changed)}
        />
      ))}
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
  change,
}: {
  question: Question;
  answer: Answer;
  isEnabled: boolean;
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
      <label class="hidden" for={`${name}-own`}>
        In your own words
      </label>
      <input
        id={`${name}-own`}
        placeholder={question.choices.length > 0 ? "Or in your own words" : "Your answer"}
        value={answer.other}
        onInput={(event) => inOwnWords(event.currentTarget.value)}
      />
    </fieldset>
  );
}
