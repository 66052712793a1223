// Draws a terminal with what the program printed.

const SIZE = 13, WIDE = 7.83, HIGH = 19, EDGE = 16, BAR = 30;
const COLOURS = { 31: '#ff8f85', 32: '#6fca90', 33: '#e5b84e', 34: '#84b9f3', 35: '#d7a6f0', 36: '#7cc7b4' };
// Non-breaking spaces, which no viewer collapses.
const escape = (text) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;').replaceAll(' ', '\u00a0');

/** The pieces of a line with the same style: the text of each, and its style. */
function* pieces(line) {
  let look = {};
  for (const part of line.split(/(\x1b\[[\d;]*m)/)) {
    const codes = /^\x1b\[([\d;]*)m$/.exec(part)?.[1];
    if (codes === undefined) { if (part) yield [part, look]; continue; }
    for (const code of codes.split(';').map(Number)) {
      if (code === 0) look = {};
      else if (code === 1) look = { ...look, bold: true };
      else if (code === 2) look = { ...look, dim: true };
      else if (COLOURS[code]) look = { ...look, colour: COLOURS[code] };
    }
  }
}

/** `lines` as SVG; longer lines are cut at `columns`. Lines that begin with `$ ` are commands. */
export function picture(lines, columns = 104) {
  const [width, height] = [columns * WIDE + 2 * EDGE, lines.length * HIGH + BAR + EDGE];
  const rows = lines.map((line, at) => {
    let room = columns, from = 0;
    const spans = [];
    for (const [text, look] of pieces(line.startsWith('$ ') ? `\x1b[1m${line}` : line)) {
      const shown = text.length > room ? `${text.slice(0, Math.max(0, room - 1))}…` : text;
      if (room <= 0) break;
      const style = [look.colour && `fill="${look.colour}"`, look.bold && 'font-weight="700"', look.dim && !look.colour && 'fill="#8b959d"'].filter(Boolean).join(' ');
      spans.push(`<tspan x="${(EDGE + from * WIDE).toFixed(1)}"${style ? ` ${style}` : ''}>${escape(shown)}</tspan>`);
      from += text.length;
      room -= text.length;
    }
    return `<text y="${BAR + (at + 0.75) * HIGH}">${spans.join('')}</text>`;
  });
  const dots = ['#ff6f61', '#e5b84e', '#6fca90'].map((colour, at) => `<circle cx="${EDGE + 4 + at * 16}" cy="16" r="5" fill="${colour}"/>`).join('');
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width.toFixed(0)} ${height}" width="${width.toFixed(0)}" height="${height}" role="img">
<title>What the first commands print</title>
<rect width="100%" height="100%" rx="9" fill="#131619"/>${dots}
<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="${SIZE}" fill="#e3e6e8">
${rows.join('\n')}
</g>
</svg>
`;
}
