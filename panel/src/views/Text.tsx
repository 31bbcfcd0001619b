/** Text of a model: Markdown, in blocks that are drawn once each. */

import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { blocksOf, coloredCode, type Block, type SafeHtml } from "../markdown/markdown";

export function Markdown({ text, isOpen = false }: { text: string; isOpen?: boolean }) {
  const known = useRef<Block[]>([]);
  const blocks = useMemo(() => (known.current = blocksOf(text, known.current)), [text]);
  return (
    <div class="markdown">
      {blocks.map((block, place) => {
        const isGrowing = isOpen && place === blocks.length - 1;
        return blockView(block, place, isGrowing);
      })}
    </div>
  );
}

function blockView(block: Block, place: number, isGrowing: boolean) {
  if (block.kind === "html") return <Html key={place} html={block.html} />;
  const { code, language } = block;
  return <Code key={place} code={code} language={language} isGrowing={isGrowing} />;
}

/** Markup that was sanitized: the only way that any comes into the page. */
function Html({ html, as = "div" }: { html: SafeHtml; as?: "div" | "code" }) {
  const element = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    element.current!.innerHTML = html as string;
  }, [html]);
  const Tag = as as "div";
  return <Tag ref={element as never} />;
}

export function Code({
  code,
  language,
  isGrowing = false,
}: {
  code: string;
  language: string;
  isGrowing?: boolean;
}) {
  const html = useMemo(
    () => (isGrowing ? null : coloredCode(code, language)),
    [code, language, isGrowing],
  );
  return (
    <div class="code">
      <CopyButton text={code} what="code" />
      <pre tabIndex={0} aria-label={language ? `Code, ${language}` : "Code"}>
        {html === null ? <code>{code}</code> : <Html html={html} as="code" />}
      </pre>
    </div>
  );
}

export function CopyButton({ text, what }: { text: string; what: string }) {
  const [isCopied, setCopied] = useState(false);
  return (
    <button
      type="button"
      class="copy"
      aria-label={isCopied ? "Copied" : `Copy ${what}`}
      onClick={() => {
        void navigator.clipboard.writeText(text).then(() => {
          setCopied(true);
          setTimeout(() => setCopied(false), 1500);
        });
      }}
    >
      {isCopied ? "Copied" : "Copy"}
    </button>
  );
}
