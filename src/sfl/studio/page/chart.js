/**
 * One chart as a drawing: axes, what was measured of each experiment, the checkpoint, values under the pointer. Dots
 * were measured, bars reach from the lowest seed to the highest; the thin line between dots only guides the eye.
 */

import { runColour } from "./colours.js";
import { number, percent, short, svg } from "./dom.js";
import { nearestStep } from "./seeds.js";

const SIZE = { width: 380, height: 150, left: 48, right: 10, top: 8, bottom: 24 };

/** Round numbers that divide a range. @param {number} low @param {number} high @param {number} about */
export function ticks(low, high, about) {
  const raw = (high - low) / about || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((times) => times * power >= raw) * power;
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + 1e-9 * step; value += step) {
    found.push(Number(value.toPrecision(12)));
  }
  return found;
}

function frameOf(groups, unit) {
  const highest = Math.max(...groups.flatMap((group) => group.high));
  const lowest = Math.min(...groups.flatMap((group) => group.low));
  const share = unit === "share" || (lowest >= 0 && highest <= 1 && highest > 0.2);
  let [low, high] = share ? [0, 1] : [Math.min(0, lowest), highest];
  if (lowest > 0.6 * highest && !share) low = lowest;
  if (high <= low) high = low + 1;
  const last = Math.max(1, ...groups.map((group) => group.steps.at(-1)));
  const wide = SIZE.width - SIZE.left - SIZE.right;
  const tall = SIZE.height - SIZE.top - SIZE.bottom;
  return {
    low, high, last, written: unit === "share" ? percent : short,
    x: (step) => SIZE.left + (step / last) * wide,
    y: (value) => SIZE.top + (1 - (value - low) / (high - low)) * tall,
    step: (x) => Math.max(0, Math.min(last, ((x - SIZE.left) / wide) * last)),
  };
}

function path(steps, values, frame) {
  return steps.map(
    (step, place) => `${place ? "L" : "M"}${frame.x(step).toFixed(1)} ${frame.y(values[place]).toFixed(1)}`,
  ).join("");
}

function axes(frame) {
  const across = ticks(frame.low, frame.high, 3).map((value) => [
    svg("line", { x1: SIZE.left, x2: SIZE.width - SIZE.right, y1: frame.y(value), y2: frame.y(value), class: "grid" }),
    svg("text", { x: SIZE.left - 6, y: frame.y(value) + 5, "text-anchor": "end" }, frame.written(value)),
  ]);
  const along = ticks(0, frame.last, 4).map((step) => svg(
    "text",
    { x: frame.x(step), y: SIZE.height - 5, "text-anchor": anchor(step, frame) },
    short(step),
  ));
  return [...across.flat(), ...along];
}

/** Labels at the ends stay inside. */
function anchor(step, frame) {
  if (step === 0) return "start";
  return frame.x(step) > SIZE.width - SIZE.right - 18 ? "end" : "middle";
}

function curve(group, frame, colour) {
  const places = group.steps.map((step) => frame.x(step));
  const parts = [];
  if (group.lines.length > 1) {
    const bars = places.map((x, at) => `M${x.toFixed(1)} ${frame.y(group.low[at]).toFixed(1)}V${
      frame.y(group.high[at]).toFixed(1)}`).join("");
    parts.push(svg("path", { d: bars, style: `stroke:${colour}`, class: "bars" }));
  }
  parts.push(svg("path", { d: path(group.steps, group.mean, frame), style: `stroke:${colour}`, class: "guide" }));
  // A line of no length with round ends is a dot: all dots are one path.
  const dots = places.map((x, at) => `M${x.toFixed(1)} ${frame.y(group.mean[at]).toFixed(1)}h0`).join("");
  const wide = dotWidth(places);
  parts.push(svg("path", { d: dots, style: `stroke:${colour};stroke-width:${wide}`, class: "mean" }));
  return parts;
}

/** Smaller the closer they are, so that dots stay dots as long as the eye can tell. @param {number[]} places */
function dotWidth(places) {
  const gap = places.length > 1 ? (places.at(-1) - places[0]) / (places.length - 1) : Infinity;
  return Math.max(2, Math.min(6, 0.7 * gap)).toFixed(1);
}

/**
 * @param {any[]} groups of `grouped` @param {any[]} runs @param {string} unit
 * @param {number|null} mark the checkpoint's step
 * @param {(lines: {colour: string, text: string}[]|null, step: number) => void} tell what was measured nearest to the
 *   pointer
 */
export function chart(groups, runs, unit, mark, tell) {
  const frame = frameOf(groups, unit);
  const written = unit === "share" ? percent : number;
  const colours = groups.map((group) => runColour(runs, group.ids[0]));
  const rule = svg("line", { y1: SIZE.top, y2: SIZE.height - SIZE.bottom, class: "rule", visibility: "hidden" });
  const checkpoint = mark !== null && mark <= frame.last ? svg(
    "line",
    { x1: frame.x(mark), x2: frame.x(mark), y1: SIZE.top, y2: SIZE.height - SIZE.bottom, class: "mark" },
  ) : null;
  const drawn = svg(
    "svg",
    { viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, role: "img" },
    ...axes(frame),
    checkpoint,
    ...groups.flatMap((group, place) => curve(group, frame, colours[place])),
    rule,
  );
  const point = (event) => {
    const box = drawn.getBoundingClientRect();
    const asked = frame.step(((event.clientX - box.left) / box.width) * SIZE.width);
    const step = nearestStep(groups.map((group) => group.steps), asked);
    for (const end of ["x1", "x2"]) rule.setAttribute(end, String(frame.x(step)));
    rule.setAttribute("visibility", "visible");
    tell(groups.map((group, place) => ({ colour: colours[place], text: reading(group, step, written) })), step);
  };
  drawn.addEventListener("pointermove", point);
  drawn.addEventListener("pointerdown", point);
  drawn.addEventListener("pointerleave", () => {
    rule.setAttribute("visibility", "hidden");
    tell(null, 0);
  });
  return drawn;
}

/** "82% (74% to 91%)": what was measured at a step; with several seeds the mean, the lowest and the highest. */
export function reading(group, step, written) {
  const at = group.steps.indexOf(step);
  if (at < 0) return "–";
  const [mean, low, high] = [group.mean[at], group.low[at], group.high[at]].map(written);
  if (group.lines.length < 2) return mean;
  const some = group.seeds[at] < group.lines.length ? `, ${group.seeds[at]} of ${group.lines.length} seeds` : "";
  return `${mean} (${low} to ${high}${some})`;
}
