/** Runs that differ in their seed only become one curve: the mean, and from the lowest to the highest. */

/**
 * @param {any} metric with `runs`: id -> {steps, values} @param {any[]} runs all runs of the page
 * @returns {{experiment: string, ids: string[], lines: any[], steps: number[], mean: number[], low: number[],
 *   high: number[]}[]}
 */
export function grouped(metric, runs) {
  const groups = new Map();
  for (const run of runs) {
    const line = metric.runs[run.id];
    if (!line?.steps.length) continue;
    if (!groups.has(run.experiment)) groups.set(run.experiment, []);
    groups.get(run.experiment).push({ id: run.id, ...known(line) });
  }
  return [...groups].map(
    ([experiment, lines]) => ({ experiment, ids: lines.map((line) => line.id), lines, ...spread(lines) }),
  );
}

/** A curve without the points at which nothing was measured. */
function known({ steps, values }) {
  const places = steps.map((_, place) => place).filter((place) => values[place] !== null);
  return { steps: places.map((place) => steps[place]), values: places.map((place) => values[place]) };
}

/** Seeds are measured at steps of their own: between two of them a curve is a straight line. */
function spread(lines) {
  const steps = [...new Set(lines.flatMap((line) => line.steps))].sort((one, other) => one - other);
  const rows = steps.map((step) => lines.map((line) => valueAt(line, step)).filter((value) => value !== null));
  return {
    steps,
    mean: rows.map((values) => values.reduce((sum, value) => sum + value, 0) / values.length),
    low: rows.map((values) => Math.min(...values)),
    high: rows.map((values) => Math.max(...values)),
  };
}

/** The value of a curve at a step; null before its first and after its last. @returns {number|null} */
export function valueAt({ steps, values }, step) {
  if (!steps.length || step < steps[0] || step > steps.at(-1)) return null;
  let low = 0;
  let high = steps.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (steps[middle] <= step) low = middle;
    else high = middle;
  }
  const span = steps[high] - steps[low];
  return span > 0 ? values[low] + ((step - steps[low]) / span) * (values[high] - values[low]) : values[high];
}
