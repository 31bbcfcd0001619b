/**
 * Markdown of a model into HTML that can do nothing.
 *
 * Three walls: HTML in the text is shown as text; what is made of the rest passes a sanitizer that
 * knows a short list of elements; and the page's policy runs no inline script and loads no picture
 * from elsewhere. So a picture of the web is a link, and a link opens a page of its own.
 */

import DOMPurify from "dompurify";
import { Marked, type Token, type TokensList } from "marked";
import { highlighted } from "./highlight";

export type SafeHtml = string | TrustedHTML;

const ESCAPES: Record<string, string> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

export function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ESCAPES[character]!);
}

const marked = new Marked({
  gfm: true,
  renderer: {
    html: ({ text }) => escaped(text),
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
    code: ({ text, lang }) => `<pre><code>${codeHtml(text, lang ?? "")}</code></pre>`,
    image({ href, text }) {
      const label = escaped(text || href);
      if (!ARTIFACT.test(href)) return `<a href="${escaped(href)}">🖼 ${label}</a>`;
      return `<img src="${escaped(href)}" alt="${label}">`;
    },
  },
});

// Without steps upwards, which browsers take before they ask, also when they are encoded.
const ARTIFACT = /^\/artifacts\/(?!.*(?:\.|%2e){2})[\w-]+\/[^?#\\]*$/i;
const LINK = /^(?:https?:\/\/|mailto:|\/artifacts\/(?!.*(?:\.|%2e){2}))/i;

const SANITIZING = {
  ALLOWED_TAGS: [
    "a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "img", "li",
    "ol", "p", "pre", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
  ],
  ALLOWED_ATTR: ["alt", "class", "href", "src", "start", "title"],
  ALLOWED_URI_REGEXP: LINK,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
}; // prettier-ignore

DOMPurify.addHook("afterSanitizeAttributes", (element) => {
  if (element.tagName === "A" && element.hasAttribute("href")) {
    element.setAttribute("target", "_blank");
    element.setAttribute("rel", "noopener noreferrer");
  }
  if (element.tagName === "IMG" && !ARTIFACT.test(element.getAttribute("src") ?? "")) {
    element.remove();
  }
  // Only the classes that colors of code have: no text may dress up as a part of the page.
  const classes = (element.getAttribute("class") ?? "").split(/\s+/);
  const ours = classes.filter((name) => /^(?:hljs-[\w-]+|function_|class_|inherited__)$/.test(name));
  if (ours.length > 0) element.setAttribute("class", ours.join(" "));
  else element.removeAttribute("class");
});

export function sanitized(html: string): SafeHtml {
  const isTrusting = "trustedTypes" in globalThis;
  return DOMPurify.sanitize(html, { ...SANITIZING, RETURN_TRUSTED_TYPE: isTrusting }) as SafeHtml;
}

export type Block =
  | { kind: "html"; raw: string; html: SafeHtml }
  | { kind: "code"; raw: string; code: string; language: string };

/**
 * The blocks of a text, in order. Blocks of `known`, as they were before, are the same objects: while
 * a text grows, only its last one is made anew.
 */
export function blocksOf(text: string, known: readonly Block[] = []): Block[] {
  const tokens = marked.lexer(text);
  return tokens
    .filter((token) => token.type !== "space" && token.type !== "def")
    .map((token, place) => {
      const before = known[place];
      return before !== undefined && before.raw === token.raw ? before : blockOf(token, tokens);
    });
}

function blockOf(token: Token, { links }: TokensList): Block {
  if (token.type === "code") {
    const language = ((token.lang as string | undefined) ?? "").split(/\s/)[0]!.toLowerCase();
    return { kind: "code", raw: token.raw, code: token.text as string, language };
  }
  const html = marked.parser(Object.assign([token], { links }));
  return { kind: "html", raw: token.raw, html: sanitized(html) };
}

/** Colored code, or null where it is better shown as it is. */
export function coloredCode(code: string, language: string): SafeHtml | null {
  const html = highlighted(code, language);
  return html === null ? null : sanitized(html);
}

function codeHtml(code: string, language: string): string {
  return highlighted(code, language.split(/\s/)[0]!.toLowerCase()) ?? escaped(code);
}
