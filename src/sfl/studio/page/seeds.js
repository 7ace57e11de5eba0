/** Runs that differ in their seed only become one curve: the mean, and from the lowest to the highest. */

/**
 * @param {any} metric with `runs`: id -> {steps, values} @param {any[]} runs all runs of the page
 * @returns {{experiment: string, ids: string[], lines: any[], steps: number[], mean: number[], low: number[],
 *   high: number[], seeds: number[]}[]}  `seeds`: how many were measured at each step
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

/**
 * Mean, lowest and highest at the steps at which every seed that was under way was measured: what lies between two
 * measurements is not known. Seeds that share no step at all are shown at the steps of each.
 */
function spread(lines) {
  const all = [...new Set(lines.flatMap((line) => line.steps))].sort((one, other) => one - other);
  const measured = lines.map((line) => new Map(line.steps.map((step, place) => [step, line.values[place]])));
  const underWay = (line, step) => line.steps[0] <= step && step <= line.steps.at(-1);
  const shared = all.filter((step) => lines.every((line, seed) => !underWay(line, step) || measured[seed].has(step)));
  const steps = shared.length ? shared : all;
  const rows = steps.map((step) => measured.filter((line) => line.has(step)).map((line) => line.get(step)));
  return {
    steps,
    mean: rows.map((values) => values.reduce((sum, value) => sum + value, 0) / values.length),
    low: rows.map((values) => Math.min(...values)),
    high: rows.map((values) => Math.max(...values)),
    seeds: rows.map((values) => values.length),
  };
}

/** The step at which something was measured that is nearest to one. @param {number[][]} lists of steps, each sorted */
export function nearestStep(lists, step) {
  return lists.flat().reduce((best, one) => (Math.abs(one - step) < Math.abs(best - step) ? one : best), Infinity);
}
