/** When to try again. Pure: chance is an argument. */

const SHORTEST = 500;
const LONGEST = 15_000;

/**
 * Milliseconds before the next try, after so many that failed in a row.
 *
 * Between half and the whole of a span that doubles, so that many pages that lost one daemon do not
 * all come back in the same moment.
 */
export function retryDelay(failures: number, chance: number): number {
  const span = Math.min(LONGEST, SHORTEST * 2 ** Math.max(0, failures - 1));
  return Math.round(span * (0.5 + chance / 2));
}
