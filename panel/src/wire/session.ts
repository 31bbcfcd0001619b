/**
 * The page's own secret, shown with every request.
 *
 * A link brings a one-time secret in its fragment, which browsers send to nobody. It is taken out of
 * the address at once, and exchanged for the session's.
 */

const KEY = "roost.session";
const LINK = "#sign-in=";

export function sessionSecret(): string | null {
  return localStorage.getItem(KEY);
}

export function forgetSession(): void {
  localStorage.removeItem(KEY);
}

/** The address's one-time secret, if it has one. Afterwards the address does not have it any more. */
export function takeLink(): string | null {
  if (!location.hash.startsWith(LINK)) return null;
  const secret = decodeURIComponent(location.hash.slice(LINK.length));
  history.replaceState(null, "", location.pathname + "#/");
  return secret;
}

/** Exchange a link's secret. Returns why it failed, in words for people, or null. */
export async function signIn(link: string): Promise<string | null> {
  try {
    const response = await fetch("/api/sign-in", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ link }),
    });
    const answer = (await response.json()) as { session?: string; error?: string };
    if (!response.ok || !answer.session) return answer.error ?? "The daemon refused the link.";
    localStorage.setItem(KEY, answer.session);
    return null;
  } catch {
    return "The daemon does not answer. Is it running?";
  }
}
