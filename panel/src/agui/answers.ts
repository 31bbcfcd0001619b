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

/** How an answer has to look: our questions' answers, one text, or JSON of some other shape. */
export type Shape = "answers" | "text" | "json";

interface Schema {
  type?: string | string[];
  required?: string[];
  properties?: Record<string, Schema>;
  prefixItems?: Schema[];
  items?: Schema;
  const?: string;
  enum?: string[];
  maxItems?: number;
  title?: string;
  description?: string;
}

export function shapeOf(schema: unknown): Shape {
  if (schema === undefined || schema === null) return "text";
  const { properties, type } = schema as Schema;
  if (Array.isArray(properties?.answers?.prefixItems)) return "answers";
  return type === "string" ? "text" : "json";
}

/** Why a JSON text is surely no answer, in words for people; null when it may be one. */
export function whyNot(schema: unknown, json: string): string | null {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return "This is not JSON yet.";
  }
  const { type, required = [] } = (schema ?? {}) as Schema;
  const kind = kindOf(value);
  const kinds = type === undefined ? [] : [type].flat();
  const isOfKind = kinds.includes(kind) || (kind === "integer" && kinds.includes("number"));
  if (kinds.length > 0 && !isOfKind) return `It has to be of this kind: ${kinds.join(" or ")}.`;
  const missing = kind === "object" ? required.filter((name) => !Object.hasOwn(value as object, name)) : [];
  return missing.length === 0 ? null : `Missing: ${missing.join(", ")}.`;
}

function kindOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return Number.isInteger(value) ? "integer" : typeof value;
}

/** Where to begin: the names that have to be there. */
export function skeletonOf(schema: unknown): string {
  const { type, required = [] } = (schema ?? {}) as Schema;
  if (type !== "object") return "";
  return JSON.stringify(Object.fromEntries(required.map((name) => [name, null])), null, 2);
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
  if (!Array.isArray(entries)) {
    const choices = ((schema as Schema | undefined)?.enum ?? []).map((label) => ({ label, description: "" }));
    return [{ header: "", text: fallback, choices, isMultiple: false }];
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
export function payloadOf(shape: Shape, questions: Question[], answers: Answer[]): unknown {
  const [only] = answers;
  if (shape === "text") return only!.labels[0] ?? only!.other.trim();
  if (shape === "json") return JSON.parse(only!.other);
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
