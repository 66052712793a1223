// How two texts differ, line by line.

import { element, written } from './dom.js';

/** The most pairs of lines that are compared; longer texts are shown one after the other. */
const MOST = 4_000_000;
/** Lines of context around a change. */
const AROUND = 2;

/** The lines of both: `[' ', line]` in both, `['-', line]` only before, `['+', line]` only after. */
export function lines(before, after) {
  const [a, b] = [before.split('\n'), after.split('\n')];
  let from = 0, [endA, endB] = [a.length, b.length];
  while (from < endA && from < endB && a[from] === b[from]) from++;
  while (endA > from && endB > from && a[endA - 1] === b[endB - 1]) { endA--; endB--; }
  const [n, m] = [endA - from, endB - from];
  const middle = [];
  if (n * m > MOST) {
    for (let i = from; i < endA; i++) middle.push(['-', a[i]]);
    for (let j = from; j < endB; j++) middle.push(['+', b[j]]);
  } else {
    // The longest common subsequence, from the end.
    const width = m + 1, longest = new Uint32Array((n + 1) * width);
    for (let i = n - 1; i >= 0; i--) for (let j = m - 1; j >= 0; j--) {
      longest[i * width + j] = a[from + i] === b[from + j] ? longest[(i + 1) * width + j + 1] + 1
        : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
    let i = 0, j = 0;
    while (i < n || j < m) {
      if (i < n && j < m && a[from + i] === b[from + j]) { middle.push([' ', a[from + i]]); i++; j++; }
      else if (j === m || (i < n && longest[(i + 1) * width + j] >= longest[i * width + j + 1])) middle.push(['-', a[from + i++]]);
      else middle.push(['+', b[from + j++]]);
    }
  }
  return [...a.slice(0, from).map((line) => [' ', line]), ...middle, ...a.slice(endA).map((line) => [' ', line])];
}

/** The ranges of `before` that change, and their replacements: `{ from, to, put }`, in order. */
function changes(before, after) {
  const made = [];
  let at = 0, open = null;
  for (const [sign, line] of lines(before, after)) {
    if (sign === ' ') { at++; open = null; continue; }
    if (!open) made.push(open = { from: at, to: at, put: [] });
    if (sign === '-') open.to = ++at; else open.put.push(line);
  }
  return made;
}

/**
 * The text with the changes that `mine` and `other` made to `base`; `null` if they changed the same lines differently.
 */
export function merged(base, mine, other) {
  const [a, b] = [changes(base, mine), changes(base, other)];
  const isAlike = (one, two) => one.from === two.from && one.to === two.to && one.put.join('\n') === two.put.join('\n');
  const meets = (one, two) => (one.from < two.to && two.from < one.to) || (one.from === two.from && (one.from === one.to || two.from === two.to));
  if (a.some((one) => b.some((two) => meets(one, two) && !isAlike(one, two)))) return null;
  const text = base.split('\n');
  const all = [...a, ...b.filter((two) => !a.some((one) => isAlike(one, two)))].sort((one, two) => two.from - one.from || two.to - one.to);
  for (const { from, to, put } of all) text.splice(from, to - from, ...put);
  return text.join('\n');
}

/** Both texts as one, with deletions and insertions marked; what is far from every change is left out. */
export function difference(before, after) {
  const all = lines(before, after);
  const near = all.map(() => false);
  all.forEach(([sign], at) => { if (sign !== ' ') for (let i = at - AROUND; i <= at + AROUND; i++) if (near[i] !== undefined) near[i] = true; });
  const shown = element('div', { class: 'diff' });
  let skipped = 0;
  const gap = () => { if (skipped > 0) shown.append(element('span', { class: 'gap' }, `… ${skipped} unchanged line${skipped === 1 ? '' : 's'}`)); skipped = 0; };
  all.forEach(([sign, line], at) => {
    if (!near[at]) { skipped++; return; }
    gap();
    const tag = { '+': 'ins', '-': 'del', ' ': 'span' }[sign];
    shown.append(written(tag, {}, element('span', { class: 'sign', 'aria-hidden': 'true' }, sign), line || ' '));
  });
  gap();
  return shown;
}
