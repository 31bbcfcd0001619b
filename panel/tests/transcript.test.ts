import { describe, expect, it } from "vitest";
import { Transcript, type Event } from "../src/agui/transcript";

function after(...events: Event[]): Transcript {
  const transcript = new Transcript();
  for (const event of events) transcript.take(event);
  return transcript;
}

const started = (runId: string, messages: object[] = []): Event => ({
  type: "RUN_STARTED",
  runId,
  input: { messages },
});
const word = (delta: string, messageId = "m1"): Event => ({
  type: "TEXT_MESSAGE_CONTENT",
  messageId,
  delta,
});
const opened = (messageId = "m1", role = "assistant"): Event => ({
  type: "TEXT_MESSAGE_START",
  messageId,
  role,
});
const shown = (transcript: Transcript): string[] =>
  transcript.items.map((item) => `${item.kind}: ${"text" in item ? item.text : item.name}`);

describe("a transcript", () => {
  it("shows a message whoever brings it, once", () => {
    const message = { id: "u1", role: "user", content: "hello" };
    const transcript = after(
      { type: "MESSAGES_SNAPSHOT", messages: [message] },
      started("r1", [message, { id: "u2", role: "user", content: "more" }]),
    );
    expect(shown(transcript)).toEqual(["user: hello", "user: more"]);
  });

  it("goes on with a message that a snapshot had begun", () => {
    const transcript = after(
      { type: "MESSAGES_SNAPSHOT", messages: [{ id: "m1", role: "assistant", content: "one " }] },
      started("r1"),
      opened(),
      word("two"),
      { type: "TEXT_MESSAGE_END", messageId: "m1" },
    );
    expect(shown(transcript)).toEqual(["assistant: one two"]);
  });

  it("ends the same for one who came in the middle as for one who was there", () => {
    const events = [started("r1"), opened(), word("a"), word("b"), word("c")];
    const whole = after({ type: "MESSAGES_SNAPSHOT", messages: [] }, ...events);
    const joined = after(
      { type: "MESSAGES_SNAPSHOT", messages: [{ id: "m1", role: "assistant", content: "ab" }] },
      events[0]!,
      events[1]!,
      word("c"),
    );
    expect(shown(joined)).toEqual(shown(whole));
  });

  it("takes a user's message that joins a run, as the run tells it", () => {
    const transcript = after(started("r1"), opened("u9", "user"), word("also this", "u9"));
    expect(shown(transcript)).toEqual(["user: also this"]);
  });

  it("puts a result to its call, and what was printed before it", () => {
    const transcript = after(
      started("r1"),
      { type: "TOOL_CALL_START", toolCallId: "t1", toolCallName: "Bash" },
      { type: "TOOL_CALL_ARGS", toolCallId: "t1", delta: '{"command":' },
      { type: "TOOL_CALL_ARGS", toolCallId: "t1", delta: '"ls"}' },
      { type: "CUSTOM", name: "roost.tool_output", value: { toolCallId: "t1", text: "a\n" } },
    );
    expect(transcript.call("t1")).toMatchObject({ arguments: '{"command":"ls"}', live: "a\n" });
    const content = JSON.stringify({ success: false, output: "a", error: "exit 1" });
    transcript.take({ type: "TOOL_CALL_RESULT", toolCallId: "t1", messageId: "x", content });
    expect(transcript.call("t1")?.result).toEqual({ success: false, output: "a", error: "exit 1" });
  });

  it("waits from the run that asked to the one that goes on", () => {
    const interrupts = [{ id: "t1", reason: "tool_call" }];
    const transcript = after(started("r1"), {
      type: "RUN_FINISHED",
      runId: "r1",
      outcome: { type: "interrupt", interrupts },
    });
    expect(transcript.interrupts).toEqual(interrupts);
    expect(transcript.isRunning).toBe(false);
    transcript.take(started("r2"));
    expect(transcript.interrupts).toEqual([]);
  });

  it("tells an error that ended the run from one that ended nothing", () => {
    const transcript = after(started("r1"), { type: "RUN_ERROR", message: "bad frame" });
    expect(transcript.complaint).toBe("bad frame");
    expect(transcript.isRunning).toBe(true);
    transcript.take({ type: "RUN_ERROR", message: "the model is gone", runId: "r1" });
    expect(transcript.isRunning).toBe(false);
    expect(shown(transcript)).toEqual(["notice: the model is gone"]);
  });

  it("closes what a run left open", () => {
    const transcript = after(started("r1"), opened(), word("half"), {
      type: "RUN_FINISHED",
      runId: "r1",
      outcome: { type: "cancelled" },
    });
    expect(transcript.items[0]).toMatchObject({ isOpen: false, text: "half" });
  });

  it("ignores what it does not know", () => {
    expect(shown(after({ type: "SOMETHING_NEW", messageId: "m1" }, word("lost", "none")))).toEqual([]);
  });

  it("replaces a key of the state", () => {
    const transcript = after(
      { type: "STATE_SNAPSHOT", snapshot: { todos: [] } },
      { type: "STATE_DELTA", delta: [{ op: "add", path: "/todos", value: [{ content: "x" }] }] },
    );
    expect(transcript.state).toEqual({ todos: [{ content: "x" }] });
  });

  it("counts each change of an item, so that it is drawn again", () => {
    const transcript = after(started("r1"), opened(), word("a"));
    const before = transcript.items[0]!.version;
    transcript.take(word("b"));
    expect(transcript.items[0]!.version).toBeGreaterThan(before);
  });

  it("keeps a decision that is open when the messages are told anew", () => {
    const called = {
      id: "a1",
      role: "assistant",
      toolCalls: [{ id: "c1", function: { name: "Bash", arguments: "{}" } }],
    };
    const open = { type: "interrupt", interrupts: [{ id: "c1", reason: "tool_call" }] };
    const transcript = after(
      started("r1", [called]),
      { type: "RUN_FINISHED", outcome: open },
      { type: "MESSAGES_SNAPSHOT", messages: [called, { id: "n1", role: "user", content: "a note" }] },
    );
    expect(transcript.interrupts.map(({ id }) => id)).toEqual(["c1"]);
    const done = { id: "t1", role: "tool", toolCallId: "c1", content: "done" };
    transcript.take({ type: "MESSAGES_SNAPSHOT", messages: [called, done] });
    expect(transcript.interrupts).toEqual([]);
  });

  it("goes on with its run when the messages are told anew in the middle of it", () => {
    const transcript = after(started("r1"), { type: "MESSAGES_SNAPSHOT", messages: [] });
    expect(transcript.isRunning).toBe(true);
    transcript.reopen();
    expect(transcript.isRunning).toBe(false);
  });

  it("takes what belongs to nothing it knows, and goes on", () => {
    const strange: Event[] = [
      word("lost", "nobody"),
      { type: "TEXT_MESSAGE_END", messageId: "nobody" },
      { type: "TOOL_CALL_ARGS", toolCallId: "nobody", delta: "{" },
      { type: "TOOL_CALL_RESULT", toolCallId: "nobody", content: "x" },
      { type: "REASONING_MESSAGE_CONTENT", messageId: "nobody", delta: "x" },
      { type: "CUSTOM", name: "roost.tool_output", value: null },
      { type: "CUSTOM", name: "roost.tool_output", value: { toolCallId: "nobody", text: "x" } },
      { type: "STATE_SNAPSHOT", snapshot: null },
      { type: "STATE_SNAPSHOT", snapshot: ["no", "object"] },
      { type: "STATE_DELTA" },
      { type: "STATE_DELTA", delta: [{ op: "replace", path: "", value: null }] },
      { type: "STATE_DELTA", delta: [null] as never },
      { type: "MESSAGES_SNAPSHOT" },
      { type: "RUN_FINISHED" },
      { type: "SOMETHING_NEW" },
    ];
    const transcript = after(...strange, opened(), word("hello"));
    expect(shown(transcript)).toEqual(["assistant: hello"]);
    expect(transcript.state).toEqual({});
  });

  it("learns of a subagent between runs without having been told of any", () => {
    const delta = [{ op: "replace", path: "/subagents/s1", value: { status: "idle" } }];
    expect(after({ type: "STATE_DELTA", delta }).state).toEqual({ subagents: { s1: { status: "idle" } } });
  });
});
