// The time of the space: the browser's clock may differ, and stored times are those of the space.

/** How many milliseconds the clock of the space is ahead of the browser's. */
let ahead = 0;
/** Milliseconds by which an answer may seem late: for its way, and because the header Date has whole seconds only. */
const UNDER_WAY = 2000;

/** The present time of the space. */
export const now = () => Date.now() + ahead;

/**
 * Learns the time from an answer with these `headers`. The time that it tells is never later than the moment at which
 * the answer arrives. The header Date, which is the clock of the server, has to do where there is no other.
 */
export function heardAt(headers) {
  const told = Date.parse(headers.get('folio-time') ?? headers.get('date'));
  if (Number.isNaN(told)) return;
  const least = told - Date.now();
  if (least > ahead || ahead - least > UNDER_WAY) ahead = least;
}
