// Judges bodies of server-sent events with the published HTTP clients, the present and the one most
// front ends still use. Reads one JSON object a line from stdin, {version, input, body}, and answers
// each with one line, {problems, messages, state}. A warning is a problem: the client warns when it
// drops something that it does not know.
import { createInterface } from "node:readline";
import { HttpAgent as Present } from "@ag-ui/client";
import { HttpAgent as Old } from "@ag-ui/client-0059";

const clients = { "1.0.0": Present, "0.0.59": Old };

async function judge({ version, input, body }) {
  const problems = [];
  const { warn, error } = console;
  const note = (kind) => (...words) => problems.push(`${kind}: ${words.map(String).join(" ").split("\n")[0]}`);
  console.warn = note("warning");
  console.error = note("error");
  globalThis.fetch = async () => new Response(body, { headers: { "content-type": "text/event-stream" } });
  const { threadId, runId, messages = [], state = {}, tools, resume } = input;
  const agent = new clients[version]({ url: "http://judge/", threadId, initialMessages: messages, initialState: state });
  let refused;
  try {
    await agent.runAgent({ runId, tools, resume }, { onRunFailed: ({ error }) => { refused = error; } });
  } catch (thrown) {
    refused = thrown;
  }
  // A run that failed on the wire is told as a failure by the old client; that is what it is for.
  const failed = /"type":"RUN_ERROR"/.test(body);
  if (refused && !failed) problems.push(`refused: ${refused.message}`);
  if (refused && failed && /Cannot send|First event|not started|while|active|Invalid|schema/i.test(refused.message)) {
    problems.push(`refused: ${refused.message}`);
  }
  Object.assign(console, { warn, error });
  return { problems, messages: agent.messages, state: agent.state };
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await judge(JSON.parse(line)))}\n`);
}
