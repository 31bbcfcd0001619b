// Judges recordings of followers with the published AG-UI client: reads a JSON list of
// {name, messages, events} from stdin, writes a list of {name, problems, messages, state}.
//
// `messages` is what the follower's snapshot held, `events` the runs that it was sent after it. Each
// run goes through the client's own pipeline (schema, chunks, order); a warning is a problem, too,
// since the client warns when it drops something that it does not know.
import { AbstractAgent } from "@ag-ui/client";
import { EventSchema } from "@ag-ui/core/schemas";
import { from } from "rxjs";

class Recorded extends AbstractAgent {
  events = [];
  run() {
    return from(this.events);
  }
  clone() {
    return this;
  }
}

function runsOf(events) {
  const runs = [];
  for (const event of events) {
    if (event.type === "RUN_STARTED" || runs.length === 0) runs.push([]);
    runs.at(-1).push(event);
  }
  return runs;
}

async function judge({ name, messages, events }) {
  const problems = [];
  const warn = console.warn;
  console.warn = (...words) => problems.push(`warning: ${words.map(String).join(" ")}`);
  console.error = (...words) => problems.push(`error: ${words.map(String).join(" ").split("\n")[0]}`);
  const agent = new Recorded({ threadId: events[0]?.threadId, initialMessages: messages });
  let resume;
  for (const run of runsOf(events)) {
    for (const event of run) {
      const parsed = EventSchema.safeParse(event);
      if (!parsed.success) problems.push(`schema: ${event.type}: ${parsed.error.message}`);
    }
    const last = run.at(-1);
    if (last.type !== "RUN_FINISHED" && last.type !== "RUN_ERROR") problems.push("a run has no end");
    agent.events = run;
    let failure;
    try {
      await agent.runAgent({ runId: run[0].runId, resume }, { onRunFailed: ({ error }) => { failure = error; } });
    } catch (error) {
      failure = error;
    }
    if (failure && last.type !== "RUN_ERROR") problems.push(`refused: ${failure.message}`);
    const asked = last.outcome?.type === "interrupt" ? last.outcome.interrupts : [];
    resume = asked.length ? asked.map((i) => ({ interruptId: i.id, status: "resolved" })) : undefined;
  }
  console.warn = warn;
  return { name, problems, messages: agent.messages, state: agent.state };
}

let text = "";
for await (const chunk of process.stdin) text += chunk;
const verdicts = [];
for (const recording of JSON.parse(text)) verdicts.push(await judge(recording));
process.stdout.write(JSON.stringify(verdicts));
