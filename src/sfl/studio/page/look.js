/** What a graph looks like: which landmark and which edge gets which colour, and the legend that says why. */

import { RAMPS, kind, rung, scaleOf } from "./colours.js";
import { number } from "./dom.js";

/**
 * @typedef {{colour: string, ids: number[]}} Group  things of one colour, drawn in one stroke
 * @typedef {{x: number[], y: number[], dots: Group[], lines: Group[], removed: number[], untried: number[],
 *   legend: Legend}} Look
 * @typedef {{title: string, ramp: string|null, low: string, high: string, entries: {colour: string, text: string}[],
 *   note: string}} Legend
 */

export const COLOURINGS = {
  visits: "visits",
  order: "order",
  success: "edge success",
  component: "component",
};

const NAMED = 7; // components with a colour of their own, the largest
const RING = 0.28; // cells between a cell's centre and the landmarks that share it

/**
 * @param {any} graph @param {any} map @param {keyof typeof COLOURINGS} colourBy @param {boolean} filters
 * @param {Record<string, string>} theme @returns {Look}
 */
export function lookOf(graph, map, colourBy, filters, theme) {
  const { landmarks, edges } = graph;
  const inForce = [];
  const removed = [];
  edges.source.forEach((_, edge) => (edges.in_force[edge] ? inForce : removed).push(edge));
  const look = { ...places(landmarks, map), removed: filters ? [] : removed, untried: [] };
  const plain = [{ colour: theme.edge, ids: inForce }];
  const note = edgeNote(inForce.length, removed.length, filters);
  if (colourBy === "success") {
    const tried = inForce.filter((edge) => edges.success[edge] !== null);
    look.untried = inForce.filter((edge) => edges.success[edge] === null);
    const lines = graded(tried, (edge) => edges.success[edge], RAMPS.cividis);
    const legend = bar("share of walks along an edge that arrived", "cividis", "0%", "100%", note);
    if (look.untried.length) legend.entries.push({
      colour: theme.edge,
      text: `${number(look.untried.length)} never tried`,
    });
    return { ...look, dots: [{ colour: theme.muted, ids: landmarks.x.map((_, id) => id) }], lines, legend };
  }
  if (colourBy === "component") return {
    ...look,
    ...byComponent(graph, inForce, theme),
    ...componentLegend(graph, theme, note),
  };
  const values = colourBy === "order" ? landmarks.added : landmarks.visits;
  const scale = scaleOf(values, colourBy === "visits");
  const dots = graded([...values.keys()], (id) => scale.share(values[id]), RAMPS.viridis);
  const title = colourBy === "order" ? "added at environment step" : "visits of a landmark (logarithmic)";
  return { ...look, dots, lines: plain, legend: bar(title, "viridis", number(scale.low), number(scale.high), note) };
}

function edgeNote(inForce, removed, filters) {
  const all = inForce + removed;
  if (filters) return `${number(inForce)} of ${number(all)} edges pass the filters`;
  return `${number(inForce)} edges in force, ${number(removed)} filtered out`;
}

function bar(title, ramp, low, high, note) {
  return { title, ramp, low, high, entries: [], note };
}

/** @param {number[]} ids @param {(id: number) => number} share @param {string[]} ramp @returns {Group[]} */
function graded(ids, share, ramp) {
  const groups = ramp.map((colour) => ({ colour, ids: /** @type {number[]} */ ([]) }));
  for (const id of ids) groups[rung(share(id))].ids.push(id);
  return groups.filter((group) => group.ids.length);
}

/** Component numbers, largest first, with how many landmarks each has. */
function componentSizes(graph) {
  const sizes = new Map();
  for (const component of graph.landmarks.component) sizes.set(component, (sizes.get(component) ?? 0) + 1);
  return [...sizes].sort((one, other) => other[1] - one[1]);
}

function byComponent(graph, inForce, theme) {
  const sizes = componentSizes(graph);
  const colours = new Map(
    sizes.map(([component, size], place) => [component, place < NAMED && size > 1 ? theme.kinds[place] : theme.muted]),
  );
  const sorted = (ids, component) => {
    const groups = new Map();
    for (const id of ids) {
      const colour = colours.get(component(id));
      if (!groups.has(colour)) groups.set(colour, { colour, ids: [] });
      groups.get(colour).ids.push(id);
    }
    return [...groups.values()];
  };
  const { component } = graph.landmarks;
  return {
    dots: sorted([...component.keys()], (id) => component[id]),
    lines: sorted(inForce, (edge) => component[graph.edges.source[edge]]),
  };
}

function componentLegend(graph, theme, note) {
  const sizes = componentSizes(graph);
  const named = sizes.filter(([, size], place) => place < NAMED && size > 1);
  const entries = named.map(([, size], place) => ({ colour: kind(place), text: number(size) }));
  if (sizes.length > named.length) entries.push({
    colour: theme.muted,
    text: `${number(sizes.length - named.length)} smaller`,
  });
  const title = `landmarks of each component (${number(sizes.length)} in all)`;
  return { legend: { title, ramp: null, low: "", high: "", entries, note } };
}

/** Where to draw landmarks: those that share a grid cell stand apart, towards where they look. */
function places(landmarks, map) {
  // Where a landmark was seen may be unknown; no pen draws what is not a number.
  const known = (values) => values.map((value) => value ?? NaN);
  if (map.kind !== "grid") return { x: known(landmarks.x), y: known(landmarks.y) };
  const total = new Map();
  const key = (id) => `${landmarks.x[id]} ${landmarks.y[id]}`;
  landmarks.x.forEach((_, id) => total.set(key(id), (total.get(key(id)) ?? 0) + 1));
  const moved = (values, part) =>
    known(values).map(
      (value, id) => (total.get(key(id)) > 1 ? value + RING * part((landmarks.degrees[id] * Math.PI) / 180) : value),
    );
  return { x: moved(landmarks.x, Math.cos), y: moved(landmarks.y, Math.sin) };
}
