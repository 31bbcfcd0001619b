// A small client of the roost daemon, in plain JavaScript, without dependencies.
//
//     node client.mjs <project dir> "<message>"          (node 22 or newer)
//     node --experimental-websocket client.mjs …         (node 20)
//
// It follows the conversation "example", sends the message, prints what the agent says, and asks
// on the terminal whenever something needs approval. The protocol: docs/reference/binding.md.

import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline/promises";

const [projectDir, text] = process.argv.slice(2);
if (!projectDir || !text) {
  console.error('usage: node client.mjs <project dir> "<message>"');
  process.exit(2);
}

const home = process.env.ROOST_HOME ?? join(homedir(), ".roost");
const { port } = JSON.parse(readFileSync(join(home, "run/daemon.json"), "utf8"));
const token = process.env.ROOST_BINDING__TOKEN ?? readFileSync(join(home, "token"), "utf8").trim();

const socket = new WebSocket(`ws://127.0.0.1:${port}/ws`);
const send = (frame) => socket.send(JSON.stringify(frame));
const terminal = createInterface({ input: process.stdin });
const answers = terminal[Symbol.asyncIterator]();

let sent = false; // our message
let running = null; // the id of the open run

async function decide(interrupts) {
  const resume = [];
  for (const { id, message } of interrupts) {
    console.log(`\n? ${message ?? id} [y/N]`);
    const { value } = await answers.next();
    resume.push({ interruptId: id, status: value?.trim() === "y" ? "resolved" : "cancelled" });
  }
  send({ type: "run_agent_input", input: { messages: [], resume } }); // all of them, at once
}

function finish(code) {
  process.exitCode = code;
  terminal.close();
  socket.close();
}

const on = {
  browser_hello_ack() {
    send({ type: "resume_conversation", project_dir: resolve(projectDir), id: "example" });
  },
  MESSAGES_SNAPSHOT({ messages }) {
    // The whole conversation: replace what you show with it. Here, only its length is shown.
    console.log(`(${messages.length} messages so far)`);
    if (sent) return;
    sent = true;
    const message = { id: crypto.randomUUID(), role: "user", content: text };
    send({ type: "run_agent_input", input: { messages: [message] } });
  },
  RUN_STARTED({ runId }) {
    running = runId; // also the sign that an open question was answered, here or elsewhere
  },
  TEXT_MESSAGE_CONTENT({ delta }) {
    process.stdout.write(delta);
  },
  TEXT_MESSAGE_END() {
    process.stdout.write("\n");
  },
  TOOL_CALL_START({ toolCallName }) {
    console.log(`[${toolCallName}]`);
  },
  TOOL_CALL_RESULT({ content }) {
    const { success, output, error } = JSON.parse(content);
    console.log(success ? String(output).trimEnd() : `failed: ${error}`);
  },
  RUN_FINISHED({ outcome }) {
    running = null;
    if (outcome.type === "interrupt") decide(outcome.interrupts);
    else finish(0);
  },
  RUN_ERROR({ message, runId }) {
    console.error(`error: ${message}`);
    // With a run's id that run is over. Without one nothing ended: before our run began, we give up.
    if (runId !== undefined || running === null) finish(1);
  },
};

socket.onopen = () =>
  send({ type: "browser_hello", client: "desktop", protocol_version: 2, token });
socket.onmessage = ({ data }) => {
  const frame = JSON.parse(data);
  on[frame.type]?.(frame); // types that we do not know are ignored
};
socket.onclose = () => {
  if (process.exitCode === undefined) {
    console.error("The daemon closed the connection. If that was at once: check the token.");
    process.exitCode = 3;
  }
  terminal.close();
};
socket.onerror = () => {};
