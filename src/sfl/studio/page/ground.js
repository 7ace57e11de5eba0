/** The place itself: floor and walls, from cells or from lines. */

/**
 * Walls as closed loops, so that the floor between them can be filled; null where they do not close.
 * @param {number[][]} walls [x0, y0, x1, y1] each
 * @returns {number[][][]|null} loops of points
 */
export function loopsOf(walls) {
  const key = (x, y) => `${Math.round(8 * x)},${Math.round(8 * y)}`;
  /** @type {Map<string, number[]>} */
  const meeting = new Map();
  walls.forEach(([x0, y0, x1, y1], wall) => {
    for (const end of [key(x0, y0), key(x1, y1)]) meeting.set(end, [...(meeting.get(end) ?? []), wall]);
  });
  if ([...meeting.values()].some((ends) => ends.length % 2)) return null;
  const used = new Set();
  const loops = [];
  walls.forEach((_, first) => {
    const loop = [];
    let [wall, end] = [first, key(walls[first][0], walls[first][1])];
    while (wall !== undefined && !used.has(wall)) {
      used.add(wall);
      const [x0, y0, x1, y1] = walls[wall];
      const forwards = key(x0, y0) === end;
      loop.push(forwards ? [x0, y0] : [x1, y1]);
      end = forwards ? key(x1, y1) : key(x0, y0);
      wall = meeting.get(end).find((other) => !used.has(other));
    }
    if (loop.length) loops.push(loop);
  });
  return loops;
}

/** @param {CanvasRenderingContext2D} pen @param {any} view @param {any} map @param {Record<string, string>} theme */
export function drawGround(pen, view, map, theme) {
  if (map.kind === "grid") drawCells(pen, view, map, theme);
  else drawFloor(pen, view, map, theme);
}

function drawCells(pen, view, map, theme) {
  const colours = { ".": theme.floor, D: theme.door };
  fillCells(pen, view, map, (letter) => (letter === "#" || letter === " " ? null : (colours[letter] ?? theme.tile)));
  if (view.scale >= 14) drawGridLines(pen, view, map, theme);
  // Walls last: they cover the ends of the lines.
  fillCells(pen, view, map, (letter) => (letter === "#" ? theme.wall : null));
}

function fillCells(pen, view, map, colour) {
  map.cells.rows.forEach((row, y) => {
    for (let x = 0; x < row.length; x += 1) {
      const shade = colour(row[x]);
      if (!shade) continue;
      pen.fillStyle = shade;
      const [left, top] = [Math.round(view.left(x - 0.5)), Math.round(view.top(y - 0.5))];
      // The cell ends where the next one begins: no seams, whatever the zoom.
      pen.fillRect(left, top, Math.round(view.left(x + 0.5)) - left, Math.round(view.top(y + 0.5)) - top);
    }
  });
}

function drawGridLines(pen, view, map, theme) {
  pen.strokeStyle = theme.line;
  pen.lineWidth = 1;
  pen.beginPath();
  map.cells.rows.forEach((row, y) => {
    for (let x = 0; x < row.length; x += 1) {
      if (row[x] === "#" || row[x] === " ") continue;
      pen.rect(Math.round(view.left(x - 0.5)) + 0.5, Math.round(view.top(y - 0.5)) + 0.5, view.scale, view.scale);
    }
  });
  pen.stroke();
}

function drawFloor(pen, view, map, theme) {
  const path = floorPath(view, map);
  if (!path) return;
  pen.fillStyle = theme.floor;
  pen.fill(path, "evenodd");
}

/** The floor of a maze on the screen; null where its walls do not close. @returns {Path2D|null} */
function floorPath(view, map) {
  map.loops ??= loopsOf(map.walls);
  if (!map.loops) return null;
  const path = new Path2D();
  for (const loop of map.loops) {
    loop.forEach(([x, y], place) => path[place ? "lineTo" : "moveTo"](view.left(x), view.top(y)));
    path.closePath();
  }
  return path;
}

/** Draw squares that may reach into walls: what is no floor stays as it is. @param {() => void} draw */
export function withinFloor(pen, view, map, draw) {
  const path = map.kind === "grid" ? null : floorPath(view, map);
  pen.save();
  if (path) pen.clip(path, "evenodd");
  draw();
  pen.restore();
}

/** Walls of a maze, above coverage and field. */
export function drawWalls(pen, view, map, theme) {
  pen.strokeStyle = theme.outline;
  pen.lineWidth = Math.max(1.5, Math.min(5, 8 * view.scale));
  pen.lineCap = "round";
  pen.beginPath();
  for (const [x0, y0, x1, y1] of map.walls) {
    pen.moveTo(view.left(x0), view.top(y0));
    pen.lineTo(view.left(x1), view.top(y1));
  }
  pen.stroke();
  pen.lineCap = "butt";
}

/** A walled place is no place to click on; only grids can tell without asking. @returns {boolean} */
export function walkable(map, x, y) {
  if (map.kind !== "grid") return inside(map, x, y);
  const letter = map.cells.rows[Math.round(y)]?.[Math.round(x)] ?? " ";
  return letter !== "#" && letter !== " ";
}

/** Whether a line from the place to the far right crosses walls an odd number of times. */
function inside(map, x, y) {
  map.loops ??= loopsOf(map.walls);
  const [left, low, right, high] = map.bounds;
  if (!map.loops) return x >= left && x <= right && y >= low && y <= high;
  let within = false;
  for (const [x0, y0, x1, y1] of map.walls) {
    if (y0 > y !== y1 > y && x < x0 + ((y - y0) / (y1 - y0)) * (x1 - x0)) within = !within;
  }
  return within;
}
