// What time it is where the server is: that of the browser may be another, and what is kept has the times of the server.

/** Milliseconds that the server's clock is before that of the browser. */
let ahead = 0;
/** Milliseconds that an answer may be under way; its date has whole seconds, besides. */
const UNDER_WAY = 2000;

/** Now, as the server has it. */
export const now = () => Date.now() + ahead;

/** Learns of an answer what time it is: `date` is what its header says. The date is never later than the moment at which the answer comes. */
export function heardAt(date) {
  const least = Date.parse(date) - Date.now();
  if (least > ahead || ahead - least > UNDER_WAY) ahead = least;
}
