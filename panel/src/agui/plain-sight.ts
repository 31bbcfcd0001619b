/**
 * Characters that would make a text look like another one: they turn its direction, or are not seen.
 * Whoever decides about a command must see what is there. Pure.
 */

// Directions, joiners, fillers and controls; not the tab and the newline, which code is made of.
const HIDING =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

/** The text with each of them written out. */
export function inPlainSight(text: string): string {
  return text.replace(HIDING, (character) => {
    const number = character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0");
    return `⟨U+${number}⟩`;
  });
}
