/** One question to any worker of a project, without following a thread of it. */

import { sessionSecret } from "./session";
import { ownName, type Frame } from "./thread-socket";

/** The reply, or null: when it was aborted, refused, or nobody answers. */
export function askProject(
  project_dir: string,
  question: string,
  reply: string,
  signal: AbortSignal,
): Promise<Frame | null> {
  return new Promise((resolve) => {
    const socket = new WebSocket(`ws://${location.host}/ws`);
    const end = (frame: Frame | null): void => {
      resolve(frame);
      socket.close();
    };
    signal.addEventListener("abort", () => end(null));
    socket.onclose = () => resolve(null);
    socket.onopen = () => {
      const hello = { type: "browser_hello", client: "desktop", protocol_version: 2 };
      socket.send(JSON.stringify({ ...hello, token: sessionSecret(), name: ownName() }));
      socket.send(JSON.stringify({ type: question, project_dir }));
    };
    socket.onmessage = ({ data }) => {
      const frame = JSON.parse(String(data)) as Frame;
      if (frame.type === reply) end(frame);
      else if (frame.type === "RUN_ERROR") end(null);
    };
  });
}
