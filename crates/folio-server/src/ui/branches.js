// The results of a run's branches so far, in the lines that its planner reads.

import { element, written } from './dom.js';

/** How much of them is shown, in tokens. */
const BUDGET = 4000;

/** The path of the roll-up of the pages below a page. */
export const branchesOf = (page) => `/pages/${page}/rollup?budget=${BUDGET}`;

/** A list with a line for each page, and its newest entries below it. */
export function branches({ rollup }) {
  const list = element('ul', {}), made = [list];
  for (const line of rollup.split('\n').filter(Boolean)) {
    const page = /^(p\d+) \[[^/\]]*\/([^\]]*)\] (.*)$/.exec(line);
    if (page) {
      const [, handle, status, told] = page;
      const [, called, where] = /^(.*) \(([^()]*)\)$/.exec(told) ?? [, told, ''];
      list.append(element('li', {}, written('a', { href: `/pages/${handle}` }, called), element('span', { class: 'quiet' }, [` · ${status}`, where].filter(Boolean).join(' · '))));
    } else if (line.startsWith('  ') && list.lastChild) {
      if (list.lastChild.lastChild.tagName !== 'UL') list.lastChild.append(element('ul', {}));
      list.lastChild.lastChild.append(written('li', {}, line.trim().replace(/^e\d+ /, '')));
    } else made.push(element('p', { class: 'quiet' }, line, line.startsWith('+') ? ': see the log for all of them.' : ''));
  }
  return made;
}
