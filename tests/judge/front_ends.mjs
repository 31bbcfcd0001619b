// Real front ends against a real daemon: the published HTTP clients and CopilotKit's core. Called as
// node front_ends.mjs '{"client","base","token","project","thread","steps"}', and if wanted "tools" (their
// names), "context", "properties", "state"; each step is one of {"say": text}, {"answer": status}, {"tool": result} of
// the call "of" (its place; the last one; "more" results follow), {"connect": true}. Prints what the client holds.
import { HttpAgent as Present } from "@ag-ui/client";
import { HttpAgent as Old } from "@ag-ui/client-0059";
import { CopilotKitCore } from "@copilotkit/core";
import { z } from "zod";

const given = JSON.parse(process.argv[2]);
const problems = [];
console.warn = (...words) => problems.push(words.map(String).join(" ").split("\n")[0]);
console.error = (...words) => problems.push(words.map(String).join(" ").split("\n")[0]);

const headers = { authorization: `Bearer ${given.token}` };
const properties = { project_dir: given.project, ...given.properties };
const names = given.tools ?? ["setColour"];
const tools = names.map((name) => ({ name, description: "Paints the page.", parameters: { type: "object" } }));
const context = given.context ?? [];
let interrupts = [];
const outcomes = [];
const events = [];
const watch = {
  onEvent({ event }) {
    events.push(event.type);
    if (event.type === "RUN_FINISHED") {
      outcomes.push(event.outcome?.type ?? "none");
      interrupts = event.outcome?.type === "interrupt" ? event.outcome.interrupts : [];
    }
    if (event.type === "RUN_ERROR") outcomes.push(`error: ${event.message}`);
  },
};

async function copilot() {
  // Outside of a browser its core does not look for a runtime.
  globalThis.window = {
    location: new URL("http://localhost:3000/"),
    navigator: { vendor: "", userAgent: "" },
    addEventListener() {},
    removeEventListener() {},
  };
  const core = new CopilotKitCore({
    runtimeUrl: `${given.base}/agui`,
    headers,
    properties,
    tools: tools.map((tool) => ({ ...tool, parameters: z.object({}), handler: async () => "painted" })),
  });
  await new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error("no runtime")), 120000);
    const look = () => core.getAgent("default") && (clearTimeout(late), resolve());
    core.subscribe({ onRuntimeConnectionStatusChanged: look, onAgentsChanged: look });
    look();
  });
  core.subscribe({ onError: ({ code, error }) => problems.push(`${code}: ${error}`) });
  context.forEach((entry) => core.addContext(entry));
  const agent = core.getAgent("default");
  agent.threadId = given.thread;
  if (given.state) agent.state = given.state;
  agent.subscribe(watch);
  return {
    agent,
    run: () => core.runAgent({ agent }),
    connect: () => core.connectAgent({ agent }),
  };
}

function plain(HttpAgent) {
  const url = `${given.base}/agui/agent/default/run`;
  const agent = new HttpAgent({ url, headers, threadId: given.thread, initialState: given.state });
  const run = (resume) => agent.runAgent({ tools, context, forwardedProps: properties, resume }, watch);
  return { agent, run };
}

const front = given.client === "copilotkit" ? await copilot() : plain(given.client === "0.0.59" ? Old : Present);
let number = 0;
let failure = null;
try {
  for (const step of given.steps) {
    const id = `${given.client}-${given.thread}-${++number}`;
    if (step.connect) {
      await front.connect();
    } else if (step.answer) {
      await front.run(interrupts.map((i) => ({ interruptId: i.id, status: step.answer })));
    } else {
      const calls = front.agent.messages.flatMap((m) => m.toolCalls ?? []);
      const message = step.tool
        ? { id, role: "tool", toolCallId: calls.at(step.of ?? -1).id, content: step.tool }
        : { id, role: "user", content: step.say };
      front.agent.addMessage(message);
      if (!step.more) await front.run();
    }
  }
} catch (error) {
  failure = error.message;
}
const { messages, state } = front.agent;
process.stdout.write(JSON.stringify({ problems, failure, outcomes, events, messages, state }));
process.exit(0);
