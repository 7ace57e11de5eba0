/** Where documents come from: a server, or the file itself. Both answer the same questions. */

/**
 * @typedef {[number, number, number|null]} Pose  x, y, degrees
 * @typedef {{id: string, title: string, experiment: string, agent: string, seed: number, world: string,
 *   world_key: string, env_steps: number, planned_steps: number, state: string,
 *   checkpoints: {name: string, env_steps: number}[],
 *   has_graph: boolean, has_field: boolean, can_play: boolean, levels: string[]}} Run
 * @typedef {{type: string, player: number, [key: string]: any}} LiveEvent
 */

/** A request that was refused, with the server's own line. */
export class Refused extends Error {
  /** @param {string} text @param {number} status */
  constructor(text, status) {
    super(text);
    this.status = status;
  }
}

const PATIENCE = 15000; // milliseconds: a server that takes longer for the list of runs is as good as gone

export class HttpSource {
  live = true;

  /** @param {string} path @param {object} [body] @param {AbortSignal} [signal] when to give up */
  async ask(path, body, signal) {
    const options = body === undefined ? { signal } : {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    };
    let answer;
    try {
      answer = await fetch(path, options);
    } catch {
      throw new Refused("The studio's server does not answer; is it still running?", 0);
    }
    const document = await answer.json().catch(() => null);
    if (!answer.ok) throw new Refused(document?.error ?? `The server answered ${answer.status}.`, answer.status);
    if (document === null) throw new Refused("The studio's server broke off in the middle of an answer.", 0);
    return document;
  }

  runs() {
    return this.ask("/api/runs", undefined, AbortSignal.timeout(PATIENCE));
  }

  map(run) {
    return this.ask(`/api/runs/${run}/map`);
  }

  graph(run, checkpoint) {
    return this.ask(graphKey(run, checkpoint));
  }

  /** The address of a landmark's picture. `stamp` tells the pictures of a checkpoint that is written anew apart. */
  picture(run, landmark, checkpoint, stamp) {
    return `/api/runs/${run}/landmarks/${landmark}/picture?checkpoint=${encodeURIComponent(checkpoint)}&at=${stamp}`;
  }

  fields(run, checkpoint) {
    return this.ask(`/api/runs/${run}/fields?checkpoint=${encodeURIComponent(checkpoint)}`);
  }

  makeFields(run, checkpoint) {
    return this.ask(`/api/runs/${run}/fields`, { checkpoint });
  }

  /** At once from the nearest view; `exact`: from the pose itself. */
  field(run, checkpoint, [x, y, degrees], exact = false) {
    return this.ask(`/api/runs/${run}/field`, { checkpoint, x, y, degrees, exact });
  }

  curves(runs) {
    return this.ask(`/api/curves?runs=${runs.join(",")}`);
  }

  config(runs) {
    return this.ask(`/api/config?runs=${runs.join(",")}`);
  }

  async episodes() {
    return [];
  }

  async start(task) {
    return (await this.ask("/api/live", task)).id;
  }

  control(id, order) {
    return this.ask(`/api/live/${id}`, order);
  }

  /**
   * Hear every event of an episode; the browser asks again, from where it was, when the line breaks.
   * @param {string} id @param {(event: LiveEvent) => void} hear @param {() => void} lost
   * @returns {() => void} what ends it
   */
  events(id, hear, lost) {
    const stream = new EventSource(`/api/live/${id}/events`);
    stream.onmessage = (message) => hear(JSON.parse(message.data));
    stream.onerror = () => {
      if (stream.readyState === EventSource.CLOSED) lost();
    };
    return () => stream.close();
  }
}

/** The key under which a graph is embedded, which is its address. */
export function graphKey(run, checkpoint) {
  return `/api/runs/${run}/graph?checkpoint=${encodeURIComponent(checkpoint)}`;
}

export class ExportSource {
  live = false;

  /** @param {{documents: Record<string, any>}} embedded */
  constructor(embedded) {
    this.documents = embedded.documents;
    /** @type {Map<string, Uint8Array>} */
    this.unpacked = new Map();
  }

  async get(key) {
    if (!(key in this.documents)) throw new Refused("This page was exported without it.", 404);
    return this.documents[key];
  }

  runs() {
    return this.get("/api/runs");
  }

  map(run) {
    return this.get(`/api/runs/${run}/map`);
  }

  graph(run, checkpoint) {
    return this.get(graphKey(run, checkpoint));
  }

  picture(run, landmark, checkpoint) {
    return this.documents.pictures?.[run]?.[checkpoint]?.[landmark] ?? null;
  }

  async fields(run, checkpoint) {
    const packed = this.documents.fields?.[run]?.[checkpoint];
    if (!packed) return { state: "impossible", reason: "This page was exported without fields of this checkpoint." };
    return {
      state: "ready",
      done: 1,
      total: 1,
      reason: null,
      score: packed.score,
      range: packed.range,
      places: packed.places,
    };
  }

  makeFields(run, checkpoint) {
    return this.fields(run, checkpoint);
  }

  /** The field of the nearest view that was exported; without a heading the best of those of its place. */
  async field(run, checkpoint, [x, y, degrees]) {
    const began = performance.now();
    const packed = this.documents.fields?.[run]?.[checkpoint];
    if (!packed) throw new Refused("This page was exported without fields of this checkpoint.", 404);
    const bytes = this.bytes(`${run} ${checkpoint}`, packed.values);
    const chosen = nearestReferences(packed.references, x, y, degrees);
    const headings = packed.places.headings.length;
    const count = packed.places.x.length;
    const [low, high] = packed.range;
    const values = Array.from({ length: count }, (_, place) =>
      Array.from({ length: headings }, (_, heading) => {
        const best = Math.max(...chosen.map((view) => bytes[(view * count + place) * headings + heading]));
        return low + ((high - low) * best) / 255;
      }),
    );
    const { references } = packed;
    const reference = [
      references.x[chosen[0]],
      references.y[chosen[0]],
      degrees === null ? null : references.degrees[chosen[0]],
    ];
    const exact = reference.every((number, place) => number === [x, y, degrees][place]);
    return { reference, exact, values, milliseconds: performance.now() - began };
  }

  bytes(key, text) {
    if (!this.unpacked.has(key)) {
      const letters = atob(text);
      const bytes = new Uint8Array(letters.length);
      for (let place = 0; place < letters.length; place += 1) bytes[place] = letters.charCodeAt(place);
      this.unpacked.set(key, bytes);
    }
    return /** @type {Uint8Array} */ (this.unpacked.get(key));
  }

  async curves(runs) {
    const all = await this.get("/api/curves");
    const kept = all.metrics.map((metric) => ({ ...metric, runs: only(metric.runs, runs) }));
    return { ...all, metrics: kept.filter((metric) => Object.keys(metric.runs).length) };
  }

  async config(runs) {
    const settings = only((await this.get("/api/config")).settings, runs);
    const names = new Set(Object.values(settings).flatMap((one) => Object.keys(one)));
    const spoken = (name) => new Set(Object.values(settings).map((one) => JSON.stringify(one[name])));
    return { settings, differs: [...names].filter((name) => spoken(name).size > 1) };
  }

  async episodes() {
    return this.documents.episodes ?? [];
  }
}

/** @param {Record<string, any>} table @param {string[]} names */
function only(table, names) {
  return Object.fromEntries(Object.entries(table).filter(([name]) => names.includes(name)));
}

/** Indices of the views at the place nearest to x, y: the one that looks most like `degrees`, or all of them. */
function nearestReferences(references, x, y, degrees) {
  let best = Infinity;
  let found = [];
  references.x.forEach((left, view) => {
    const gap = (left - x) ** 2 + (references.y[view] - y) ** 2;
    if (gap < best) [best, found] = [gap, []];
    if (gap === best) found.push(view);
  });
  if (degrees === null) return found;
  const turn = (view) => Math.abs(((references.degrees[view] - degrees + 540) % 360) - 180);
  return [found.reduce((nearest, view) => (turn(view) < turn(nearest) ? view : nearest))];
}
