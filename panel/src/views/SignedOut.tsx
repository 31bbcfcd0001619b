import { signal } from "@preact/signals";

/** Why a link did not sign in. */
export const signInTrouble = signal<string | null>(null);

export function SignedOut() {
  return (
    <main class="signed-out">
      <img src="/icon.svg" alt="" width="56" height="56" />
      <h1>You are not signed in</h1>
      {signInTrouble.value && <p role="alert">{signInTrouble.value}</p>}
      <p>
        In a terminal on this machine, run <code>roost panel</code>. It opens this page signed in, and
        your browser stays so.
      </p>
    </main>
  );
}
