/** A new conversation: where, with which model, how freely, and what it is about. */

import { useEffect, useRef, useState } from "preact/hooks";
import { projects } from "../app/connection";
import { go, threadHref } from "../app/routes";
import { acquire, release } from "../app/threads";
import { askProject } from "../wire/ask-project";
import { MODES } from "./ThreadView";

export function NewThread() {
  const [project, setProject] = useState(projects.value[0] ?? "");
  const [model, setModel] = useState("");
  const [mode, setMode] = useState("standard");
  const [text, setText] = useState("");
  const models = useModels(project);
  const first = useRef<HTMLTextAreaElement>(null);
  const isWhole = project.startsWith("/") && text.trim() !== "";
  useEffect(() => {
    if (matchMedia("(min-width: 800px)").matches) first.current?.focus();
  }, []);
  // The list may come after this page.
  useEffect(() => {
    if (project === "" && projects.value[0] !== undefined) setProject(projects.value[0]);
  }, [projects.value[0]]);

  const start = (): void => {
    if (!isWhole) return;
    const key = { project_dir: project.trim(), id: crypto.randomUUID() };
    const session = acquire(key, { mode, ...(model === "" ? {} : { model }) });
    session.say(text.trim(), []);
    go(threadHref(key));
    // Its view has it by then.
    setTimeout(() => release(session), 1000);
  };
  return (
    <div class="page">
      <header class="page-head">
        <a href="#/" class="back" aria-label="Back to the list">
          ←
        </a>
        <h1>New conversation</h1>
      </header>
      <form class="new" onSubmit={(event) => (event.preventDefault(), start())}>
        <div class="field">
          <label for="about">What is it about?</label>
          <textarea
            id="about"
            ref={first}
            rows={4}
            value={text}
            placeholder="Say what you want done"
            onInput={(event) => setText(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
              event.preventDefault();
              start();
            }}
          />
        </div>
        <div class="field">
          <label for="project">Project folder</label>
          <input
            id="project"
            list="projects"
            value={project}
            placeholder="/home/you/project"
            aria-describedby="project-note"
            onInput={(event) => setProject(event.currentTarget.value)}
          />
          <span id="project-note" class="muted">
            A folder on the machine where roost runs.
          </span>
        </div>
        <datalist id="projects">
          {projects.value.map((dir) => (
            <option key={dir} value={dir} />
          ))}
        </datalist>
        <div class="field">
          <label for="model">Model</label>
          <select id="model" value={model} onChange={(event) => setModel(event.currentTarget.value)}>
            <option value="">the project’s own</option>
            {models.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </div>
        <fieldset class="modes">
          <legend>Mode</legend>
          {MODES.map(([name, does]) => (
            <label key={name} class="choice">
              <input
                type="radio"
                name="mode"
                checked={mode === name}
                onChange={() => setMode(name)}
              />
              <span>
                {name} <span class="muted">{does}</span>
              </span>
            </label>
          ))}
        </fieldset>
        <button type="submit" class="primary" disabled={!isWhole}>
          Start
        </button>
      </form>
    </div>
  );
}

/** The models of a project, asked for when its folder stands still for a moment. */
function useModels(project: string): string[] {
  const [models, setModels] = useState<string[]>([]);
  useEffect(() => {
    setModels([]);
    if (!project.startsWith("/")) return;
    const abort = new AbortController();
    const timer = setTimeout(() => {
      void askProject(project, "list_models", "models", abort.signal).then((answer) => {
        if (answer !== null) setModels(answer.models as string[]);
      });
    }, 400);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [project]);
  return models;
}
