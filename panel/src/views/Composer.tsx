/** Where one writes: several lines, history, skills, files; a message while it works waits its turn. */

import { useEffect, useRef, useState } from "preact/hooks";
import { say } from "../app/actions";
import type { Skill, ThreadSession, Upload } from "../app/thread-session";

const LARGEST_FILE = 10 * 2 ** 20;

export function Composer({ session }: { session: ThreadSession }) {
  void session.version.value;
  const box = useRef<HTMLTextAreaElement>(null);
  const [text, setText] = useState(() => draftOf(session));
  const [files, setFiles] = useState<Upload[]>([]);
  const history = useHistory(session, text, setText);
  const skills = useSkills(session, text);
  const { isRunning, interrupts } = session.transcript;

  useEffect(() => {
    sessionStorage.setItem(draftKey(session), text);
    fit(box.current!);
  }, [text]);
  useEffect(() => {
    if (matchMedia("(min-width: 800px)").matches) box.current?.focus();
  }, []);

  const send = (): void => {
    const said = text.trim();
    if (said === "" && files.length === 0) return;
    session.say(said, files);
    history.remember(said);
    setText("");
    setFiles([]);
  };
  const add = (added: FileList | undefined): void => {
    if (added) void read(added).then((uploads) => setFiles((known) => [...known, ...uploads]));
  };
  const pick = (skill: Skill): void => {
    setText(`/${skill.name} `);
    box.current?.focus();
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => (event.preventDefault(), send())}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        add(event.dataTransfer?.files);
      }}
    >
      {skills.shown.length > 0 && <SkillList skills={skills.shown} chosen={skills.chosen} pick={pick} />}
      <Files files={files} remove={(gone) => setFiles(files.filter((file) => file !== gone))} />
      <div class="composer-row">
        <label class="hidden" for="composer">
          Message
        </label>
        <textarea
          id="composer"
          ref={box}
          rows={1}
          value={text}
          placeholder={placeholder(isRunning, interrupts.length > 0)}
          aria-describedby={skills.shown.length > 0 ? "skills" : undefined}
          onInput={(event) => setText(event.currentTarget.value)}
          onPaste={(event) => {
            if (event.clipboardData?.files.length) {
              event.preventDefault();
              add(event.clipboardData.files);
            }
          }}
          onKeyDown={(event) => {
            if (event.isComposing) return;
            if (skills.pressed(event, pick) || history.pressed(event)) event.preventDefault();
            else if (event.key === "Enter" && !event.shiftKey) {
              event.preventDefault();
              send();
            }
          }}
        />
        <label class="icon attach" title="Add a file">
          <span aria-hidden="true">+</span>
          <span class="hidden">Add a file</span>
          <input
            type="file"
            multiple
            class="hidden"
            onChange={(event) => {
              add(event.currentTarget.files ?? undefined);
              event.currentTarget.value = "";
            }}
          />
        </label>
        {isRunning && (
          <button type="button" class="stop" onClick={() => session.stop()}>
            Stop
          </button>
        )}
        <button type="submit" class="primary" disabled={text.trim() === "" && files.length === 0}>
          {isRunning ? "Queue" : "Send"}
        </button>
      </div>
    </form>
  );
}

function placeholder(isRunning: boolean, isWaiting: boolean): string {
  if (isWaiting) return "It waits for your decision; a message joins the answer";
  return isRunning ? "It works; a message joins in" : "Message";
}

function Files({ files, remove }: { files: Upload[]; remove(file: Upload): void }) {
  if (files.length === 0) return null;
  return (
    <ul class="files" aria-label="Files to send">
      {files.map((file, place) => (
        <li key={place} class="chip">
          {file.url && <img src={file.url} alt="" />}
          {file.name}
          <button type="button" class="icon" aria-label={`Remove ${file.name}`} onClick={() => remove(file)}>
            ✕
          </button>
        </li>
      ))}
    </ul>
  );
}

function SkillList({
  skills,
  chosen,
  pick,
}: {
  skills: readonly Skill[];
  chosen: number;
  pick(skill: Skill): void;
}) {
  return (
    <ul class="skills" id="skills" role="listbox" aria-label="Skills">
      {skills.map((skill, place) => (
        <li
          key={skill.name}
          role="option"
          aria-selected={place === chosen}
          onMouseDown={(event) => {
            event.preventDefault();
            pick(skill);
          }}
        >
          <strong>/{skill.name}</strong> <span class="muted">{skill.description}</span>
        </li>
      ))}
    </ul>
  );
}

/** What was typed in the project before, by the arrow keys at the ends of the text. */
function useHistory(session: ThreadSession, text: string, setText: (text: string) => void) {
  const place = useRef<number | null>(null);
  const draft = useRef("");
  const own = useRef<string[]>([]);
  useEffect(() => {
    if (session.link.value === "open" && session.history.value.length === 0) {
      session.ask("list_history");
    }
  }, [session.link.value]);
  const show = (all: string[], next: number): void => {
    if (place.current === null) draft.current = text;
    place.current = next < all.length ? next : null;
    setText(next < all.length ? all[next]! : draft.current);
  };
  return {
    remember(said: string): void {
      if (said !== "") own.current.push(said);
      place.current = null;
    },
    pressed(event: KeyboardEvent): boolean {
      const box = event.target as HTMLTextAreaElement;
      const all = [...session.history.value, ...own.current];
      const at = place.current ?? all.length;
      const isAtStart = box.selectionStart === 0 && box.selectionEnd === 0;
      if (event.key === "ArrowUp" && at > 0 && (text === "" || isAtStart || place.current !== null)) {
        show(all, at - 1);
        return true;
      }
      if (event.key === "ArrowDown" && place.current !== null) {
        show(all, at + 1);
        return true;
      }
      return false;
    },
  };
}

/** The skills that fit what is typed behind a slash. */
function useSkills(session: ThreadSession, text: string) {
  const [chosen, setChosen] = useState(0);
  const typed = /^\/([\w-]*)$/.exec(text)?.[1];
  useEffect(() => {
    setChosen(0);
    if (typed !== undefined && session.skills.value === null) session.ask("list_skills");
  }, [typed]);
  const all = session.skills.value ?? [];
  const shown = typed === undefined ? [] : all.filter(({ name }) => name.startsWith(typed)).slice(0, 8);
  return {
    shown,
    chosen,
    pressed(event: KeyboardEvent, pick: (skill: Skill) => void): boolean {
      if (shown.length === 0) return false;
      if (event.key === "ArrowDown") setChosen((chosen + 1) % shown.length);
      else if (event.key === "ArrowUp") setChosen((chosen + shown.length - 1) % shown.length);
      else if (event.key === "Enter" || event.key === "Tab") pick(shown[chosen]!);
      else return false;
      return true;
    },
  };
}

async function read(list: FileList): Promise<Upload[]> {
  const uploads: Upload[] = [];
  for (const file of list) {
    if (file.size > LARGEST_FILE) {
      say(`${file.name} is larger than 10 MiB and was left out.`);
      continue;
    }
    const url = await dataUrl(file);
    const mimeType = file.type || "application/octet-stream";
    const data = url.slice(url.indexOf(",") + 1);
    const picture = mimeType.startsWith("image/") && mimeType !== "image/svg+xml" ? { url } : {};
    uploads.push({ name: file.name || "pasted", mimeType, data, ...picture });
  }
  return uploads;
}

function dataUrl(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

function fit(box: HTMLTextAreaElement): void {
  box.style.height = "auto";
  box.style.height = `${Math.min(box.scrollHeight, innerHeight * 0.4)}px`;
}

function draftKey({ key }: ThreadSession): string {
  return `roost.draft.${key.project_dir}\n${key.id}`;
}

/** What was written here and not sent: also after a reload. */
function draftOf(session: ThreadSession): string {
  return sessionStorage.getItem(draftKey(session)) ?? "";
}
