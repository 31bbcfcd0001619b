import { signal } from "@preact/signals";
import { announcement, dismiss, toasts } from "../app/actions";
import { isSignedIn } from "../app/connection";
import { route } from "../app/routes";
import { Help } from "./Help";
import { Inbox } from "./Inbox";
import { useKeys } from "./keys";
import { NewThread } from "./NewThread";
import { Sidebar } from "./Sidebar";
import { SignedOut } from "./SignedOut";
import { ThreadView } from "./ThreadView";

export function App() {
  useKeys();
  if (!isSignedIn.value) return <SignedOut />;
  const isList = route.value.view === "list";
  return (
    <div class="app">
      {isNarrow.value && isList ? <ListPage /> : <Desk />}
      <Toasts />
      <Help />
      <div class="hidden" role="status" aria-live="polite">
        {announcement.value}
      </div>
    </div>
  );
}

/** A phone shows one thing at a time: the list, or what was picked in it. */
const isNarrow = signal(false);
const narrow = matchMedia("(max-width: 799px)");
isNarrow.value = narrow.matches;
narrow.addEventListener("change", () => (isNarrow.value = narrow.matches));

function ListPage() {
  return (
    <main class="list-page">
      <h1 class="hidden">Conversations</h1>
      <Sidebar />
    </main>
  );
}

function Desk() {
  return (
    <>
      {!isNarrow.value && <Sidebar />}
      <main class="main">
        <Main />
      </main>
    </>
  );
}

function Main() {
  const shown = route.value;
  switch (shown.view) {
    case "thread": {
      const { project_dir, id } = shown;
      return <ThreadView key={`${project_dir}\n${id}`} threadKey={{ project_dir, id }} />;
    }
    case "inbox":
      return <Inbox />;
    case "new":
      return <NewThread />;
    case "list":
      return (
        <div class="empty">
          <h1>Pick a conversation</h1>
          <p>
            or <a href="#/new">start a new one</a>. Press <kbd>?</kbd> for the keys.
          </p>
        </div>
      );
  }
}

function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map(({ id, text, action }) => (
        <div class="toast" key={id}>
          <span>{text}</span>
          {action && (
            <button
              type="button"
              class="link"
              onClick={() => {
                action.run();
                dismiss(id);
              }}
            >
              {action.label}
            </button>
          )}
          <button type="button" class="icon" aria-label="Dismiss" onClick={() => dismiss(id)}>
            ✕
          </button>
        </div>
      ))}
    </div>
  );
}
