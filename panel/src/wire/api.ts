/** Requests to /api. Every failure is a `Failed` with a sentence for people. */

import { sessionSecret } from "./session";

export class Failed extends Error {
  constructor(
    message: string,
    readonly code: string,
    readonly status: number,
  ) {
    super(message);
  }
}

export function authorization(): Record<string, string> {
  return { authorization: `Bearer ${sessionSecret() ?? ""}` };
}

export async function post(path: string, body: object): Promise<unknown> {
  let response: Response;
  try {
    response = await fetch(path, {
      method: "POST",
      headers: { ...authorization(), "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  } catch {
    throw new Failed("Not connected: nothing was changed.", "away", 0);
  }
  const answer = (await response.json().catch(() => ({}))) as { error?: string; code?: string };
  if (!response.ok) {
    const text = answer.error ?? "The daemon refused.";
    throw new Failed(text, answer.code ?? "failed", response.status);
  }
  return answer;
}
