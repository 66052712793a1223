// What the branches of a run have come to, in the lines that its planner reads of them.

import { element, written } from './dom.js';

/** How much of them is shown, in tokens. */
const BUDGET = 4000;

/** Where the lines for what is below a page are asked for. */
export const branchesOf = (page) => `/pages/${page}/rollup?budget=${BUDGET}`;

/** A line for each page with its newest entries below it, as a list. */
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
