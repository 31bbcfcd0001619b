import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

export const isHelpOpen = signal(false);

const KEYS: [string, string][] = [
  ["j / k", "next, previous: in the list, and among decisions"],
  ["Enter", "open what is chosen"],
  ["a / d", "approve, decline"],
  ["/", "search"],
  ["n", "new conversation"],
  ["i", "decisions that wait for you"],
  ["q", "to your last question"],
  ["Esc", "back"],
  ["?", "this page"],
];

export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (isHelpOpen.value) dialog.current?.showModal();
    else dialog.current?.close();
  }, [isHelpOpen.value]);
  return (
    <dialog
      ref={dialog}
      class="help"
      aria-labelledby="help-title"
      onClose={() => (isHelpOpen.value = false)}
    >
      <h2 id="help-title">Keys</h2>
      <dl>
        {KEYS.map(([key, does]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <p class="muted">
        While you write: Enter sends, Shift+Enter begins a new line, ↑ brings back what you wrote.
      </p>
      <form method="dialog">
        <button type="submit">Close</button>
      </form>
    </dialog>
  );
}
