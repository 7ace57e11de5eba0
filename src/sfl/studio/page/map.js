/** The map's canvases: a picture of what stands still, moved while the view moves and drawn anew when it settles. */

import { themeColours } from "./colours.js";
import { byId } from "./dom.js";
import { usedRange } from "./fieldlayer.js";
import { drawScene } from "./layers.js";
import { lookOf } from "./look.js";
import { drawOverlay } from "./overlay.js";
import { currentRun } from "./state.js";
import { View } from "./view.js";

const SETTLED = 140; // milliseconds without motion after which the picture is drawn anew
const QUICK = 9; // milliseconds: a picture that is drawn this fast is drawn anew in every frame
const FOOT = 60; // pixels at the bottom for a legend of two lines, in letters of 14
const MARGIN = 0.35; // of the screen on each side, so that panning shows no empty edge

export class MapPanel {
  /** @param {import("./state.js").State} state */
  constructor(state) {
    this.state = state;
    this.view = new View();
    this.box = byId("map");
    this.still = byId("map-still");
    this.moving = byId("map-moving");
    this.picture = document.createElement("canvas");
    /** @type {View|null} the view that the picture shows */
    this.pictured = null;
    this.look = null;
    this.cost = 0;
    this.frames = new FrameCounter();
    this.firstPaint = null;
    this.shownMap = null;
    /** @type {Set<() => void>} */
    this.movers = new Set();
    this.dirty = { picture: true, still: true, moving: true };
    new ResizeObserver(() => this.resize()).observe(this.box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.repaint());
    state.watch(["map"], () => this.newWorld());
    state.watch(["graph", "colourBy", "filters", "theme", "projector"], () => this.repaint());
    state.watch(["layers", "field", "thresholds", "headings", "map", "task", "session"], () => this.touch("picture"));
    const moving = [
      "hover",
      "picked",
      "reference",
      "draft",
      "session",
      "playhead",
      "cursor",
      "run",
      "checkpoints",
    ];
    state.watch(moving, () => this.touch("moving"));
    this.resize();
  }

  /** Be told whenever the view moved. @param {() => void} mover */
  onMove(mover) {
    this.movers.add(mover);
  }

  newWorld() {
    const { map } = this.state.values;
    const before = this.shownMap?.world;
    this.shownMap = map && map.kind !== "other" ? map : null;
    // Runs in one world are compared at the same place and zoom.
    if (this.shownMap && map.world !== before) this.view.show(map.bounds, map.y_down);
    this.repaint();
    this.moved();
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.box;
    if (!width || !height) return;
    const fitted = Math.abs(this.view.scale / this.view.fitting() - 1) < 1e-6;
    this.ratio = Math.min(2, devicePixelRatio || 1);
    // A constant, whatever the legend's size is: what lies on the map never changes the map.
    const letters = parseFloat(getComputedStyle(document.documentElement).fontSize) / 14;
    this.view.foot = document.documentElement.hasAttribute("data-compact") ? 0 : FOOT * letters;
    this.view.resize(width, height);
    if (fitted || this.view.scale < 0.4 * this.view.fitting()) this.view.fit();
    for (const canvas of [this.still, this.moving]) {
      [canvas.width, canvas.height] = [Math.round(width * this.ratio), Math.round(height * this.ratio)];
    }
    this.touch("picture");
    this.moved();
  }

  /** The look of the graph is out of date. */
  repaint() {
    const { map, graph, colourBy, filters } = this.state.values;
    this.theme = themeColours();
    const drawable = this.shownMap && graph && graph.landmarks.x.length;
    this.look = drawable ? lookOf(graph, map, colourBy, filters, this.theme) : null;
    this.touch("picture");
    this.touch("moving");
  }

  /** Something must be drawn anew in the next frame. @param {"picture"|"still"|"moving"} part */
  touch(part) {
    this.dirty[part] = true;
    if (part === "picture") this.dirty.still = true;
    this.asked ??= requestAnimationFrame((time) => this.frame(time));
  }

  /** The view moved: the picture follows at once, and is drawn anew when nothing moves any more. */
  moved() {
    this.touch("still");
    this.touch("moving");
    clearTimeout(this.settling);
    this.settling = setTimeout(() => {
      this.frames.stop();
      if (!this.exact()) this.touch("picture");
    }, SETTLED);
    this.frames.go();
    for (const mover of this.movers) mover();
  }

  exact() {
    const { pictured, view } = this;
    return pictured !== null && pictured.scale === view.scale && pictured.x === view.x && pictured.y === view.y;
  }

  frame(time) {
    this.asked = null;
    this.frames.tick(time);
    const { dirty } = this;
    if (dirty.picture || (dirty.still && !this.exact() && this.cost < QUICK)) this.drawPicture();
    if (dirty.still) this.showPicture();
    if (dirty.moving) this.drawMoving();
    this.dirty = { picture: false, still: false, moving: false };
    if (this.firstPaint === null && this.complete()) this.firstPaint = performance.now();
  }

  /** All that there is of the run on the map is drawn. */
  complete() {
    return this.shownMap !== null && (this.state.values.graph !== null || !currentRun(this.state)?.has_graph);
  }

  drawPicture() {
    const began = performance.now();
    const margin = Math.round(MARGIN * Math.max(this.view.width, this.view.height));
    const wide = this.view.widened(margin);
    const { picture, ratio } = this;
    const [width, height] = [Math.round(wide.width * ratio), Math.round(wide.height * ratio)];
    if (picture.width !== width || picture.height !== height) [picture.width, picture.height] = [width, height];
    const pen = /** @type {CanvasRenderingContext2D} */ (picture.getContext("2d"));
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, wide.width, wide.height);
    if (this.shownMap) drawScene(pen, wide, this.scene(), this.theme);
    this.pictured = wide;
    this.cost = performance.now() - began;
  }

  scene() {
    const { values } = this.state;
    const { map, graph, layers, field, fields, thresholds, headings, task, session } = values;
    const shown = field && fields?.places ? {
      places: fields.places,
      range: usedRange(fields.range, field.values),
      values: field.values,
      thresholds,
      headings,
    } : null;
    const levels = Object.keys(map.tasks ?? {});
    const level = task.level ?? levels[0];
    return {
      map,
      graph,
      look: this.look,
      layers,
      field: shown,
      tasks: map.tasks?.[level] ?? [],
      busy: session !== null,
    };
  }

  showPicture() {
    const { still, picture, pictured, view, ratio } = this;
    const pen = still.getContext("2d");
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, still.width, still.height);
    if (!pictured) return;
    const grow = view.scale / pictured.scale;
    const left = view.left(pictured.world(0, 0)[0]) * ratio;
    const top = view.top(pictured.world(0, 0)[1]) * ratio;
    // Whole pixels while only panning: the picture stays as sharp as it was drawn.
    const [x, y] = grow === 1 ? [Math.round(left), Math.round(top)] : [left, top];
    pen.imageSmoothingEnabled = grow !== 1;
    pen.drawImage(picture, x, y, picture.width * grow, picture.height * grow);
  }

  drawMoving() {
    const pen = this.moving.getContext("2d");
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.clearRect(0, 0, this.view.width, this.view.height);
    if (this.shownMap) drawOverlay(pen, this.view, this.state.values, this.look, this.theme);
  }

  /** The landmark at a point of the screen, or null. @param {number} left @param {number} top */
  landmarkAt(left, top, reach = 9) {
    if (!this.look || !this.state.values.layers.landmarks) return null;
    const { x, y } = this.look;
    let best = reach * reach;
    let found = null;
    for (let id = 0; id < x.length; id += 1) {
      const gap = (this.view.left(x[id]) - left) ** 2 + (this.view.top(y[id]) - top) ** 2;
      if (gap < best) [best, found] = [gap, id];
    }
    return found;
  }
}

/** Frames a second while the view moves. */
class FrameCounter {
  constructor() {
    this.running = false;
    this.rate = null;
    this.times = [];
  }

  go() {
    if (!this.running) this.times = [];
    this.running = true;
  }

  tick(time) {
    if (this.running) this.times.push(time);
  }

  stop() {
    this.running = false;
    const { times } = this;
    if (times.length > 5) this.rate = (1000 * (times.length - 1)) / (times.at(-1) - times[0]);
  }
}
