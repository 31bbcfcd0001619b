import { describe, expect, it } from "vitest";
import { artifactsIn } from "../src/agui/artifacts";
import { isAnswered, payloadOf, questionsOf, shapeOf, skeletonOf, whyNot } from "../src/agui/answers";
import { factsOf } from "../src/agui/calls";
import { lineDiff } from "../src/agui/diff";
import { patched } from "../src/agui/json-patch";
import { inPlainSight } from "../src/agui/plain-sight";
import { ago, dayOf, found, sectionsOf, type Row } from "../src/app/rows";
import { retryDelay } from "../src/wire/backoff";
import { EventReader } from "../src/wire/server-events";

describe("a diff", () => {
  const marks = (before: string, after: string): string =>
    lineDiff(before, after)
      .map(({ kind, text }) => ({ same: " ", added: "+", removed: "-" })[kind] + text)
      .join("|");

  it("names what is added and removed", () => {
    expect(marks("a\nb\nc\n", "a\nx\nc\nd\n")).toBe(" a|-b|+x| c|+d");
    expect(marks("", "a\n")).toBe("+a");
    expect(marks("a\n", "")).toBe("-a");
    expect(marks("a", "a")).toBe(" a");
  });

  it("has both texts in it, whatever they are", () => {
    const texts = ["", "a", "a\nb", "b\na\nb", "x\n\ny", "a\na\na"];
    for (const before of texts) {
      for (const after of texts) {
        const lines = lineDiff(before, after);
        const side = (without: string): string =>
          lines.filter(({ kind }) => kind !== without).map(({ text }) => text).join("\n");
        expect(side("added")).toBe(before);
        expect(side("removed")).toBe(after);
      }
    }
  });
});

describe("a patch", () => {
  it("does what the operations say", () => {
    const value = { a: [1, 2], b: { c: 1 } };
    expect(patched(value, [{ op: "add", path: "/a/-", value: 3 }])).toEqual({ a: [1, 2, 3], b: { c: 1 } });
    expect(patched(value, [{ op: "remove", path: "/b/c" }])).toEqual({ a: [1, 2], b: {} });
    expect(patched(value, [{ op: "move", from: "/b/c", path: "/d" }])).toEqual({ a: [1, 2], b: {}, d: 1 });
    expect(patched(value, [{ op: "replace", path: "/x~1y", value: 1 }])).toMatchObject({ "x/y": 1 });
    expect(value).toEqual({ a: [1, 2], b: { c: 1 } });
  });

  it("reaches nothing that is nobody's data", () => {
    expect(patched({}, [{ op: "add", path: "/__proto__/x", value: 1 }])).toEqual({});
    expect(patched({}, [{ op: "add", path: "/a/constructor/x", value: 1 }])).toEqual({});
    expect(({} as { x?: number }).x).toBeUndefined();
  });

  it("makes the objects on its way that a late page was never told of", () => {
    expect(patched({}, [{ op: "add", path: "/subagents/s1", value: { status: "running" } }])).toEqual({
      subagents: { s1: { status: "running" } },
    });
    expect(patched({ a: null }, [{ op: "replace", path: "/a/b/c", value: 1 }])).toEqual({ a: { b: { c: 1 } } });
  });

  it("leaves out what leads nowhere, and does the rest", () => {
    const value = { todos: ["a"], text: "x" };
    const nowhere = ["/todos/3", "/todos/-1", "/todos/x", "/todos/0/deep", "/text/deep", "/none"];
    for (const path of nowhere) {
      const after = patched(value, [{ op: "remove", path }, { op: "add", path: "/ok", value: 1 }]);
      expect(after).toEqual({ ...value, ok: 1 });
    }
    expect(patched(value, [{ op: "replace", path: "/todos/1", value: "b" }])).toEqual(value);
    expect(patched(value, [{ op: "add", path: "/todos/2", value: "c" }])).toEqual(value);
    expect(patched(value, [{ op: "move", from: "/none", path: "/b" }])).toEqual(value);
    expect(patched(value, [{ op: "copy", from: "/none/x", path: "/b" }])).toEqual(value);
  });
});

describe("a call", () => {
  it("tells its command in full", () => {
    expect(factsOf("Bash", '{"command":"ls -la","timeout":5}')).toMatchObject({
      command: "ls -la",
      rest: '{\n  "timeout": 5\n}',
    });
  });

  it("tells an edit as a diff", () => {
    const facts = factsOf("Edit", '{"path":"a.txt","old":"x","new":"y"}');
    expect(facts.diff).toEqual([
      { kind: "removed", text: "x" },
      { kind: "added", text: "y" },
    ]);
  });

  it("shows arguments that are not whole yet as they are", () => {
    expect(factsOf("Bash", '{"comm')).toEqual({ subject: '{"comm', rest: '{"comm' });
  });
});

describe("a text that one decides about", () => {
  it("hides nothing and turns no direction", () => {
    expect(inPlainSight("rm \u202e-rf\u2066 /\u200b\r\u001b[2K")).toBe(
      "rm ⟨U+202E⟩-rf⟨U+2066⟩ /⟨U+200B⟩⟨U+000D⟩⟨U+001B⟩[2K",
    );
    expect(inPlainSight("\u{e0041}")).toBe("⟨U+E0041⟩");
    expect(inPlainSight("a\tb\nשלום é 🌹")).toBe("a\tb\nשלום é 🌹");
  });
});

describe("questions", () => {
  const schema = {
    type: "object",
    properties: {
      answers: {
        prefixItems: [
          {
            properties: {
              question: { const: "Which color?" },
              selectedLabels: { items: { enum: ["red", "blue"] }, maxItems: 1 },
            },
          },
        ],
      },
    },
  };
  const asked = JSON.stringify({
    questions: [{ question: "Which color?", header: "Color", options: [{ label: "red", description: "warm" }] }],
  });

  it("come out of the response schema", () => {
    expect(questionsOf(schema, asked, "")).toEqual([
      {
        header: "Color",
        text: "Which color?",
        isMultiple: false,
        choices: [
          { label: "red", description: "warm" },
          { label: "blue", description: "" },
        ],
      },
    ]);
  });

  it("are one of own words without a schema", () => {
    expect(questionsOf(undefined, "", "Go on?")).toEqual([
      { header: "", text: "Go on?", choices: [], isMultiple: false },
    ]);
  });

  it("are asked for as what another schema wants, or as JSON, and never as ours", () => {
    expect(shapeOf(schema)).toBe("answers");
    expect(shapeOf(undefined)).toBe("text");
    expect(shapeOf({ type: "string" })).toBe("text");
    expect(shapeOf({ type: "object", properties: { answers: { type: "array" } } })).toBe("json");
    const [color] = questionsOf({ type: "string", enum: ["red", "blue"] }, "", "Which?");
    expect(color!.choices.map(({ label }) => label)).toEqual(["red", "blue"]);
    expect(payloadOf("text", [color!], [{ labels: ["red"], other: "" }])).toBe("red");
    expect(payloadOf("text", [color!], [{ labels: [], other: " mine " }])).toBe("mine");
    expect(payloadOf("json", [color!], [{ labels: [], other: '{"n": 1}' }])).toEqual({ n: 1 });
  });

  it("take no JSON that is surely wrong", () => {
    const wanted = { type: "object", required: ["n"], properties: { n: { type: "integer" } } };
    expect(skeletonOf(wanted)).toBe('{\n  "n": null\n}');
    expect(whyNot(wanted, "{")).toBe("This is not JSON yet.");
    expect(whyNot(wanted, "[]")).toBe("It has to be of this kind: object.");
    expect(whyNot(wanted, "{}")).toBe("Missing: n.");
    expect(whyNot(wanted, '{"n": 1}')).toBeNull();
    expect(whyNot({ type: "number" }, "3")).toBeNull();
    expect(whyNot({}, "3")).toBeNull();
  });

  it("make an answer of labels or own words", () => {
    const questions = questionsOf(schema, asked, "");
    expect(isAnswered({ labels: [], other: "  " })).toBe(false);
    expect(payloadOf("answers", questions, [{ labels: ["red"], other: " " }])).toEqual({
      answers: [{ header: "Color", question: "Which color?", selectedLabels: ["red"] }],
    });
    expect(payloadOf("answers", questions, [{ labels: [], other: " green " }])).toMatchObject({
      answers: [{ selectedLabels: [], otherText: "green" }],
    });
  });
});

describe("the list", () => {
  const row = (id: string, changed: Partial<Row> = {}): Row => ({
    project_dir: "/home/me/garden",
    id,
    slug: null,
    title: `title of ${id}`,
    name: null,
    updated_at: "2026-05-04T10:00:00Z",
    state: "stopped",
    since: null,
    failed: false,
    interrupts: [],
    followers: 0,
    answered_by: null,
    parent: null,
    ...changed,
  });
  const now = new Date("2026-05-04T12:00:00Z");

  it("has what wants a person first, then what runs, then the days", () => {
    const rows = [
      row("old", { updated_at: "2026-05-03T10:00:00Z" }),
      row("runs", { state: "running" }),
      row("waits", { state: "waiting" }),
      row("today"),
    ];
    expect(sectionsOf(rows, now).map(({ title }) => title)).toEqual([
      "Waiting for you",
      "Running",
      "Today",
      "Yesterday",
    ]);
  });

  it("has subagents under their parent, which moves up with them", () => {
    const rows = [row("parent"), row("child", { parent: "parent", state: "waiting" })];
    const [section] = sectionsOf(rows, now);
    expect(section!.title).toBe("Waiting for you");
    expect(section!.branches[0]!.row.id).toBe("parent");
    expect(section!.branches[0]!.children[0]!.row.id).toBe("child");
  });

  it("has a subagent of another folder under its parent, and never loses an orphan", () => {
    const child = row("child", { parent: "parent", project_dir: "/worktree" });
    expect(sectionsOf([row("parent"), child], now)[0]!.branches).toHaveLength(1);
    const twins = [row("parent"), row("parent", { project_dir: "/other" }), child];
    expect(sectionsOf(twins, now)[0]!.branches).toHaveLength(3);
    expect(sectionsOf([child], now)[0]!.branches).toHaveLength(1);
  });

  it("finds by all words, in the title, the name and the project, with the parents", () => {
    const rows = [row("parent"), row("child", { parent: "parent", name: "Blue folder" }), row("x")];
    expect(found(rows, "blue GARDEN").map(({ id }) => id)).toEqual(["parent", "child"]);
    expect(found(rows, "nothing like it")).toEqual([]);
    expect(found(rows, " ")).toHaveLength(3);
  });

  it("says days and ages as people do", () => {
    expect(dayOf(new Date("2026-05-04T00:30:00"), new Date("2026-05-04T23:00:00"))).toBe("Today");
    expect(dayOf(new Date("2026-05-03T23:59:00"), new Date("2026-05-04T00:01:00"))).toBe("Yesterday");
    expect(ago("2026-05-04T11:57:00Z", now.getTime())).toBe("3 min");
    expect(ago("2026-05-04T12:00:05Z", now.getTime())).toBe("now");
    expect(ago(null, now.getTime())).toBe("");
  });
});

describe("coming back", () => {
  it("takes longer each time, up to a limit, and never all at once", () => {
    expect(retryDelay(1, 0)).toBe(250);
    expect(retryDelay(1, 1)).toBe(500);
    expect(retryDelay(4, 1)).toBe(4000);
    expect(retryDelay(50, 1)).toBe(15_000);
    expect(retryDelay(50, 0)).toBe(7_500);
  });
});

describe("server-sent events", () => {
  it("are the same in whatever pieces they come", () => {
    const text = 'event: thread\ndata: {"a":1}\n\n: still here\n\nevent: gone\ndata: x\ndata: y\n\n';
    const whole = new EventReader().take(text);
    const reader = new EventReader();
    expect([...text].flatMap((character) => reader.take(character))).toEqual(whole);
    expect(whole).toEqual([
      { event: "thread", data: '{"a":1}' },
      { event: "gone", data: "x\ny" },
    ]);
  });
});

describe("artifacts", () => {
  it("are found by their path, once, and never out of their folder's name", () => {
    const text = "saved /home/me/.roost/projects/garden-12ab34cd/artifacts/a b.png and"
      + " /home/me/.roost/projects/garden-12ab34cd/artifacts/out/plot.svg. Again:"
      + " /home/me/.roost/projects/garden-12ab34cd/artifacts/out/plot.svg";
    expect(artifactsIn(text).map(({ href }) => href)).toEqual([
      "/artifacts/garden-12ab34cd/a",
      "/artifacts/garden-12ab34cd/out/plot.svg",
    ]);
  });
});
