/** What stands still on the map: ground, coverage, field, graph, tasks. Drawn into a picture that pans and zooms. */

import { RAMPS, rung, scaleOf } from "./colours.js";
import { drawField, drawOutlines } from "./fieldlayer.js";
import { drawGround, drawWalls, withinFloor } from "./ground.js";

/** As many segments go into one stroke: a longer path makes the rasterizer slow. */
const STROKE = 256;

/**
 * @typedef {{map: any, graph: any, look: any, layers: Record<string, boolean>, field: any, tasks: any[],
 *   busy: boolean}} Scene  `busy`: agents are at play, and the graph steps back
 * @param {CanvasRenderingContext2D} pen @param {any} view @param {Scene} scene @param {Record<string, string>} theme
 */
export function drawScene(pen, view, scene, theme) {
  const { map, graph, look, layers } = scene;
  drawGround(pen, view, map, theme);
  withinFloor(pen, view, map, () => {
    if (graph?.coverage && layers.coverage && !scene.field) drawCoverage(pen, view, graph.coverage);
    if (scene.field) drawField(pen, view, map, scene.field);
    if (scene.field) drawOutlines(pen, view, map, scene.field, theme);
  });
  if (map.walls.length) drawWalls(pen, view, map, theme);
  if (look) {
    // Under a field edges would be scribble; landmarks stay, faintly, as there the field means something.
    if (layers.edges && !scene.field) drawEdges(pen, view, graph, look, theme, scene.busy ? 0.4 : 1);
    if (layers.landmarks) drawLandmarks(pen, view, look, theme, Boolean(scene.field), scene.busy);
    if (layers.frontier && !scene.field && !scene.busy) drawFrontier(pen, view, graph, look, theme);
  }
  if (layers.tasks) for (const task of scene.tasks) drawTask(pen, view, task, theme);
  if (map.start) drawHome(pen, view, map.start, theme);
}

function drawCoverage(pen, view, coverage) {
  const scale = scaleOf((coverage.visits ?? []).filter(Boolean), true);
  coverage.squares.forEach(([x, y], square) => {
    if (coverage.visits?.[square] === 0) return;
    pen.fillStyle = RAMPS.cividis[rung(coverage.visits ? scale.share(coverage.visits[square]) : 0.6)];
    const half = coverage.side / 2;
    const [left, right] = [Math.round(view.left(x - half)), Math.round(view.left(x + half))];
    const [top, bottom] = [view.top(y - half), view.top(y + half)].map(Math.round).sort((one, other) => one - other);
    pen.globalAlpha = 0.7;
    // The middle of the colours is grey: a seam of floor tells such a square from a wall.
    const seam = right - left > 12 ? 1 : 0;
    pen.fillRect(left + seam, top + seam, right - left - 2 * seam, bottom - top - 2 * seam);
  });
  pen.globalAlpha = 1;
}

/** Thinner and fainter the more there are, so that a large graph stays a drawing and not a blot. */
function edgeWeight(count, scale, fitting) {
  const crowd = Math.max(0, Math.min(1, (Math.log10(Math.max(count, 1)) - 2) / 2.3));
  const close = Math.max(1, Math.min(3, scale / fitting));
  return { alpha: 0.85 - 0.45 * crowd, width: (1.5 - 0.8 * crowd) * Math.sqrt(close) };
}

function drawEdges(pen, view, graph, look, theme, strength) {
  const { alpha, width } = edgeWeight(graph.edges.source.length, view.scale, view.fitting());
  pen.globalAlpha = alpha * strength;
  pen.lineWidth = width;
  if (look.removed.length) {
    pen.strokeStyle = theme.alert;
    pen.setLineDash([4, 3]);
    segments(pen, view, graph.edges, look, look.removed);
  }
  if (look.untried.length) {
    pen.strokeStyle = theme.edge;
    pen.setLineDash([1.5, 3]);
    segments(pen, view, graph.edges, look, look.untried);
  }
  pen.setLineDash([]);
  for (const { colour, ids } of look.lines) {
    pen.strokeStyle = colour;
    segments(pen, view, graph.edges, look, ids);
  }
  pen.globalAlpha = 1;
}

function segments(pen, view, edges, look, ids) {
  const { width, height } = view;
  let drawn = 0;
  pen.beginPath();
  for (const edge of ids) {
    const [one, other] = [edges.source[edge], edges.target[edge]];
    const [x0, y0] = [view.left(look.x[one]), view.top(look.y[one])];
    const [x1, y1] = [view.left(look.x[other]), view.top(look.y[other])];
    const aside = (x0 < 0 && x1 < 0) || (x0 > width && x1 > width);
    if (aside || (y0 < 0 && y1 < 0) || (y0 > height && y1 > height)) continue;
    pen.moveTo(x0, y0);
    pen.lineTo(x1, y1);
    drawn += 1;
    if (drawn % STROKE === 0) {
      pen.stroke();
      pen.beginPath();
    }
  }
  pen.stroke();
}

/** Radius of a landmark's dot in pixels. */
export function dotRadius(view, count) {
  const crowd = Math.max(0, Math.min(1, (Math.log10(Math.max(count, 1)) - 2) / 1.7));
  const close = Math.sqrt(Math.max(1, view.scale / view.fitting()));
  return (5.5 - 3.2 * crowd) * Math.min(close, 2.6);
}

function drawLandmarks(pen, view, look, theme, hollow, busy) {
  const radius = dotRadius(view, look.x.length) * (hollow ? 0.75 : 1);
  pen.lineWidth = Math.max(0.75, radius / 4);
  if (hollow || busy) pen.globalAlpha = hollow && look.x.length > 400 ? 0.3 : 0.7;
  for (const { colour, ids } of look.dots) {
    pen.fillStyle = hollow ? theme.halo : colour;
    pen.strokeStyle = hollow ? theme.ink : theme.halo;
    pen.beginPath();
    for (const id of ids) {
      const [left, top] = [view.left(look.x[id]), view.top(look.y[id])];
      if (left < -9 || top < -9 || left > view.width + 9 || top > view.height + 9) continue;
      pen.moveTo(left + radius, top);
      pen.arc(left, top, radius, 0, 2 * Math.PI);
    }
    if (radius >= 2) pen.stroke();
    pen.fill();
  }
  pen.globalAlpha = 1;
}

function drawFrontier(pen, view, graph, look, theme) {
  const dot = dotRadius(view, look.x.length);
  const radius = dot + Math.min(3, 0.6 * dot);
  pen.strokeStyle = theme.frontier;
  pen.lineWidth = Math.min(2, 0.45 * dot);
  pen.beginPath();
  for (const id of graph.frontier) {
    const [left, top] = [view.left(look.x[id]), view.top(look.y[id])];
    pen.moveTo(left + radius, top);
    pen.arc(left, top, radius, 0, 2 * Math.PI);
  }
  pen.stroke();
}

function drawTask(pen, view, { start, goal }, theme) {
  if (!start || !goal) return;
  pen.globalAlpha = 0.5;
  [pen.strokeStyle, pen.fillStyle, pen.lineWidth] = [theme.accent, theme.accent, 1.25];
  pen.beginPath();
  pen.moveTo(view.left(start[0]), view.top(start[1]));
  pen.lineTo(view.left(goal[0]), view.top(goal[1]));
  pen.stroke();
  pen.globalAlpha = 1;
  pen.beginPath();
  pen.arc(view.left(goal[0]), view.top(goal[1]), 3, 0, 2 * Math.PI);
  pen.fill();
}

/** Where episodes of training begin: a small house of two lines would be a riddle; a square with an S is none. */
function drawHome(pen, view, [x, y], theme) {
  const [left, top] = [view.left(x), view.top(y)];
  const side = 16 * theme.unit;
  pen.fillStyle = theme.ink;
  pen.fillRect(left - side / 2, top - side / 2, side, side);
  drawLetter(pen, "S", left, top, theme);
}

/** A letter in a mark. @param {CanvasRenderingContext2D} pen @param {any} theme */
export function drawLetter(pen, letter, left, top, theme) {
  pen.fillStyle = theme.floor;
  pen.font = `600 ${12 * theme.unit}px system-ui, sans-serif`;
  [pen.textAlign, pen.textBaseline] = ["center", "middle"];
  pen.fillText(letter, left, top + 0.5);
}
