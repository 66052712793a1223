// The results of a run's branches so far, in the lines that its planner reads.

import { element, written } from './dom.js';
import { absolute, why, words } from './format.js';
import { plain } from './markdown.js';

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
      // The handle of the last change is for its planner.
      const place = where.split('; ').filter((part) => !part.startsWith('last change')).join('; ');
      list.append(element('li', {}, written('a', { href: `/pages/${handle}` }, called), element('span', { class: 'quiet' }, [` · ${words(status)}`, place].filter(Boolean).join(' · '))));
    } else if (line.startsWith('  ') && list.lastChild) {
      if (list.lastChild.lastChild.tagName !== 'UL') list.lastChild.append(element('ul', {}));
      const told = line.trim().replace(/^e\d+ /, '');
      // What the criteria were found to be is said with the outcome.
      if (told !== 'Criteria') list.lastChild.lastChild.append(written('li', {}, ...entry(told)));
    } else made.push(element('p', { class: 'quiet' }, line, line.startsWith('+') ? ': see the log for all of them.' : ''));
  }
  return made;
}

/** A line about an entry: an outcome at its beginning in words, and times as elsewhere. */
function entry(told) {
  const said = told.replace(/^(ok|partial|failed|cancelled|skipped)(?: \((\w+)\))?(?=[:,])/, (_, status, reason) => words(status) + (reason ? ` (${why(reason)})` : ''));
  return said.split(/(\d{4}-\d\d-\d\dT[\d:.]+Z)/).flatMap((part, at) => (at % 2 === 0 ? plain(part) : [absolute(part)]));
}
