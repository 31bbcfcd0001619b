/** Questions out of an interrupt's response schema, and the answer that fits it. Pure. */

export interface Choice {
  label: string;
  description: string;
}

export interface Question {
  header: string;
  text: string;
  choices: Choice[];
  isMultiple: boolean;
}

export interface Answer {
  labels: string[];
  other: string;
}

interface Schema {
  type?: string | string[];
  properties?: Record<string, Schema>;
  prefixItems?: Schema[];
  items?: Schema;
  const?: string;
  enum?: string[];
  maxItems?: number;
  title?: string;
  description?: string;
}

/**
 * The questions that a response schema stands for, in the order of its answers.
 *
 * `json` is the arguments of the call that asked, for what a schema does not say: headers, and what
 * a choice means.
 */
export function questionsOf(schema: unknown, json: string, fallback: string): Question[] {
  const entries = (schema as Schema | undefined)?.properties?.answers?.prefixItems;
  const asked = askedIn(json);
  if (entries === undefined) {
    return [{ header: "", text: fallback, choices: [], isMultiple: false }];
  }
  return entries.map((entry, place) => {
    const selected = entry.properties?.selectedLabels;
    const options = asked[place]?.options ?? [];
    return {
      header: asked[place]?.header ?? "",
      text: entry.properties?.question?.const ?? asked[place]?.question ?? fallback,
      isMultiple: selected?.maxItems !== 1,
      choices: (selected?.items?.enum ?? []).map((label) => ({
        label,
        description: options.find((option) => option.label === label)?.description ?? "",
      })),
    };
  });
}

export function isAnswered({ labels, other }: Answer): boolean {
  return labels.length > 0 || other.trim() !== "";
}

/** The payload of a resume. */
export function payloadOf(questions: Question[], answers: Answer[]): object {
  return {
    answers: questions.map((question, place) => {
      const { labels, other } = answers[place]!;
      const said = other.trim();
      return {
        header: question.header,
        question: question.text,
        selectedLabels: labels,
        ...(said === "" ? {} : { otherText: said }),
      };
    }),
  };
}

interface Asked {
  question?: string;
  header?: string;
  options?: { label: string; description?: string }[];
}

function askedIn(json: string): Asked[] {
  try {
    const { questions } = JSON.parse(json) as { questions?: Asked[] };
    return Array.isArray(questions) ? questions : [];
  } catch {
    return [];
  }
}
