/** Files below a project's artifacts folder that a text names by their paths. Pure. */

export interface Artifact {
  href: string;
  name: string;
  isPicture: boolean;
}

const PATH = /\/projects\/([a-z0-9-]+)\/artifacts\/([^\s"'`<>|*?)\]]+)/g;
const PICTURE = /\.(?:png|jpe?g|gif|webp|svg)$/i;
const MOST = 12;

export function artifactsIn(text: string): Artifact[] {
  const found = new Map<string, Artifact>();
  for (const [, slug, path] of text.matchAll(PATH)) {
    const clean = path!.replace(/[.,;:]+$/, "");
    const steps = clean.split("/").map(encodeURIComponent);
    const href = `/artifacts/${slug}/${steps.join("/")}`;
    if (clean === "" || clean.includes("..") || found.size >= MOST) continue;
    found.set(href, { href, name: clean, isPicture: PICTURE.test(clean) });
  }
  return [...found.values()];
}
