// The little of markdown that pages are written in. Makes elements, never HTML from text.

import { element, written } from './dom.js';

const BOXES = { x: '✓ ', '~': '▸ ', '!': '✗ ', '-': '⊘ ', ' ': '· ' };

/** `text` as elements. */
export function markdown(text) {
  const made = [];
  const lines = text.split('\n');
  const last = (tag) => { if (made.at(-1)?.tagName !== tag.toUpperCase()) made.push((tag === 'p' ? written : element)(tag, {})); return made.at(-1); };
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at];
    let part;
    if ((part = /^<!-- (.*) -->$/.exec(line))) made.push(element('p', { class: 'meta' }, part[1]));
    else if ((part = /^(#{1,6}) (.*)/.exec(line))) made.push(written(`h${Math.min(part[1].length + 1, 6)}`, {}, ...inline(part[2])));
    else if (/^\s*```/.test(line)) {
      const from = at + 1;
      do at++; while (at < lines.length && !/^\s*```/.test(lines[at]));
      made.push(written('pre', {}, lines.slice(from, at).join('\n')));
    } else if (line.startsWith('|')) {
      const table = last('table');
      const cells = line.replace(/^\||\|\s*$/g, '').split(/(?<!\\)\|/).map((cell) => cell.trim());
      if (!cells.some((cell) => /[^\s:-]/.test(cell))) continue;
      const tag = /^\|[\s:|-]+$/.test(lines[at + 1]) ? 'th' : 'td';
      table.append(element('tr', {}, ...cells.map((cell) => written(tag, {}, ...inline(cell)))));
    } else if ((part = /^(\s*)[-*] (?:\[(.)\] )?(.*)/.exec(line))) {
      const box = BOXES[part[2]] ?? '';
      const item = written('li', box ? { class: 'box' } : {}, box, ...inline(part[3]));
      if (part[1]) item.style.marginLeft = `${part[1].length / 2}rem`;
      last('ul').append(item);
    } else if (line.trim() === '') { if (/^(P|TABLE)$/.test(made.at(-1)?.tagName)) made.push(''); }
    else if (made.at(-1)?.tagName === 'UL' && /^\s/.test(line)) made.at(-1).lastChild.append('\n', ...inline(line.trim()));
    else { const block = last('p'); block.append(block.hasChildNodes() ? '\n' : '', ...inline(line)); }
  }
  return made;
}

const PIECES = /(`[^`]+`|\*\*[^*]+\*\*|(?<![\w*])\*[^*\s][^*]*\*(?![\w*])|\[[^\]]+\]\((?:https?:\/\/|\/)[^)\s]+\))/;

function inline(text) {
  return text.split(PIECES).map((part, index) => {
    if (index % 2 === 0) return part.replace(/\\([!-\/:-@[-`{-~])/g, '$1');
    if (part[0] === '`') return element('code', {}, part.slice(1, -1));
    if (part[0] === '[') return link(...part.slice(1, -1).split(']('));
    return part.startsWith('**') ? element('strong', {}, part.slice(2, -2)) : element('em', {}, part.slice(1, -1));
  });
}

/** A link to a place here, or elsewhere without saying where from. */
export function link(text, to) {
  const isHere = to.startsWith('/') && !to.startsWith('//');
  return element('a', { href: to, ...(isHere ? {} : { rel: 'noopener noreferrer nofollow', target: '_blank' }) }, text);
}
