// The little of markdown that pages and reports are written in. Makes elements, never HTML from text.

import { element, wide, written } from './dom.js';

const BOXES = { x: '✓ ', '~': '▸ ', '!': '✗ ', '-': '⊘ ', ' ': '· ' };

/** `text` as elements. */
export function markdown(text) {
  const made = [];
  const lines = text.split('\n');
  const isLast = (tag) => made.at(-1)?.tagName === tag.toUpperCase();
  const last = (tag) => { if (!isLast(tag)) made.push((/^(p|blockquote)$/.test(tag) ? written : element)(tag, {})); return made.at(-1); };
  const addTo = (block, line) => block.append(block.hasChildNodes() ? '\n' : '', ...inline(line));
  let rows = null, heading = '';
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at];
    let part;
    if (!line.startsWith('|')) rows = null;
    if ((part = /^<!-- (.*) -->$/.exec(line))) made.push(element('p', { class: 'meta' }, part[1]));
    else if ((part = /^(#{1,6}) (.*)/.exec(line))) {
      heading = part[2];
      made.push(written(`h${Math.min(part[1].length + 1, 6)}`, {}, ...inline(heading)));
    }
    else if (/^\s*```/.test(line)) {
      const from = at + 1;
      do at++; while (at < lines.length && !/^\s*```/.test(lines[at]));
      made.push(written('pre', {}, lines.slice(from, at).join('\n')));
    } else if (line.startsWith('|')) {
      if (!rows) made.push(wide(rows = element('table')));
      const cells = cellsOf(line);
      if (!cells.some((cell) => /[^\s:-]/.test(cell))) {
        if (line.includes('-')) rows.sides ??= cells.map((cell) => /^:?-+:$/.test(cell) && (cell[0] === ':' ? 'middle' : 'end'));
        for (const head of rows.querySelectorAll('th')) side(head, rows);
        continue;
      }
      const tag = /^\|[\s:|-]+$/.test(lines[at + 1]) ? 'th' : 'td';
      rows.append(element('tr', {}, ...cells.map((cell) => written(tag, {}, ...inline(cell)))));
      for (const cell of rows.lastChild.children) side(cell, rows);
    } else if (/^\s{0,3}([-*_])(\s*\1){2,}\s*$/.test(line)) made.push(element('hr'));
    else if ((part = /^(\s*)[-*+] (?:\[(.)\] )?(.*)/.exec(line))) {
      const box = BOXES[part[2]] ?? '';
      const item = written('li', box ? { class: 'box' } : {}, box, ...(heading === 'Pages' ? toPage(part[3]) : inline(part[3])));
      if (part[1]) item.style.marginInlineStart = `${part[1].length / 2}rem`;
      last('ul').append(item);
    } else if ((part = /^(\s*)(\d{1,9})[.)] (.*)/.exec(line))) {
      const item = written('li', { value: part[2] }, ...inline(part[3]));
      if (part[1]) item.style.marginInlineStart = `${part[1].length / 2}rem`;
      last('ol').append(item);
    } else if ((part = /^> ?(.*)/.exec(line))) addTo(last('blockquote'), part[1]);
    else if (line.trim() === '') { if (/^(P|BLOCKQUOTE)$/.test(made.at(-1)?.tagName)) made.push(''); }
    else if ((isLast('ul') || isLast('ol')) && /^\s/.test(line)) made.at(-1).lastChild.append('\n', ...inline(line.trim()));
    else addTo(last('p'), line);
  }
  return made;
}

const cellsOf = (line) => line.replace(/^\||\|\s*$/g, '').split(/(?<!\\)\|/).map((cell) => cell.trim());
/** Has a cell stand at the side that the line below the heads says. */
function side(cell, { sides }) {
  const at = sides?.[cell.cellIndex];
  if (at) cell.classList.add(at);
}

/** A line of the pages below: the handle leads there. */
function toPage(text) {
  const handle = /^p\d+(?= )/.exec(text)?.[0];
  return handle ? [link(handle, `/pages/${handle}`), ...inline(text.slice(handle.length))] : inline(text);
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
