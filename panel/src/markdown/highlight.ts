/** Highlighting of code, in the dozen languages that agents write most. */

import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import markdown from "highlight.js/lib/languages/markdown";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";

const LANGUAGES = {
  bash, c, css, diff, go, java, javascript, json, markdown, python, rust, sql, typescript, xml, yaml,
}; // prettier-ignore
for (const [name, language] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, language);

// Longer code is shown as it is: coloring it would stop the page for a moment.
const LONGEST = 50_000;

/** HTML of the code, or null where there is no language to color it by. Not sanitized yet. */
export function highlighted(code: string, language: string): string | null {
  if (code.length > LONGEST || !hljs.getLanguage(language)) return null;
  return hljs.highlight(code, { language, ignoreIllegals: true }).value;
}
