// The server's time: the browser's clock may differ, and stored times are those of the server.

/** How many milliseconds the server's clock is ahead of the browser's. */
let ahead = 0;
/** Milliseconds by which an answer may seem late: for its way, and because its date has whole seconds only. */
const UNDER_WAY = 2000;

/** The present time of the server. */
export const now = () => Date.now() + ahead;

/**
 * Learns the time from an answer, whose date header is `date`. The date is never later than the moment at which the
 * answer arrives.
 */
export function heardAt(date) {
  const least = Date.parse(date) - Date.now();
  if (least > ahead || ahead - least > UNDER_WAY) ahead = least;
}
