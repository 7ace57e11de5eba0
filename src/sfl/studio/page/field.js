/**
 * The field from a place: asks for the cache, waits while it is made, asks for values; the latest question wins.
 * What is shown at once is the field of the nearest view; that of the very pose takes its place when it is there.
 * While training goes on the field of the checkpoint before stays until that of the new one is there.
 */

import { THRESHOLDS } from "./fieldlayer.js";
import { Refused } from "./source.js";
import { checkpointOf, complain, currentRun } from "./state.js";

const WAIT = 700; // milliseconds between two looks at a cache in the making
const SETTLED = 80; // milliseconds without another question, as while the reference is turned

export class FieldKeeper {
  /** @param {import("./state.js").State} state @param {any} source */
  constructor(state, source) {
    [this.state, this.source] = [state, source];
    this.turn = 0;
    [this.milliseconds, this.exactMilliseconds] = [null, null]; // of the last question, once answered
    this.asking = false; // what is shown is not yet the answer to the last question
    this.from = null; // the reference whose field is shown
    this.known = null; // the checkpoint whose cache is known to be there
    state.watch(["run", "checkpoints", "runs"], () => this.follow());
    state.watch(["reference"], () => this.ask());
    state.watch(["graph"], () => this.takeThresholds());
    state.watch(["epoch"], () => this.again());
  }

  /** Another run or checkpoint: what is known of its cache is not what was known. */
  follow() {
    const run = currentRun(this.state);
    const name = run && checkpointOf(this.state, run.id);
    const steps = run?.checkpoints.find((one) => one.name === name)?.env_steps ?? null;
    const [place, key] = [`${run?.id} ${name}`, `${run?.id} ${name} ${steps}`];
    if (key === this.key) return;
    const rewritten = place === this.place; // by training, under the same name
    [this.key, this.place, this.steps] = [key, place, steps];
    if (!rewritten) this.state.update({ fields: null, field: null, renewing: null });
    if (this.state.values.reference) this.ask();
    else this.state.update({ fields: null });
  }

  /** The server is there again, perhaps another one: it may have to make the cache anew. */
  again() {
    this.known = null;
    if (this.state.values.reference) this.ask();
  }

  /** Sliders begin where the agent's own thresholds are. */
  takeThresholds() {
    const found = Object.entries(this.state.values.graph?.thresholds ?? {});
    const own = Object.fromEntries(found.filter(([name, value]) => value !== null && THRESHOLDS[name]));
    const text = JSON.stringify(own);
    if (text === this.own) return;
    this.own = text;
    this.state.update({ thresholds: own });
  }

  /** The field on the map answers the question that is asked, if perhaps of the checkpoint before. */
  get stays() {
    const { field, reference } = this.state.values;
    return field !== null && this.from === reference;
  }

  async ask() {
    const { reference } = this.state.values;
    const run = currentRun(this.state);
    this.turn += 1;
    const turn = this.turn;
    [this.milliseconds, this.exactMilliseconds] = [null, null];
    this.asking = Boolean(reference && run) && !this.stays;
    if (!reference || !run) {
      this.state.update({ field: null, renewing: null });
      return;
    }
    const began = performance.now();
    const { steps } = this;
    try {
      const fields = await this.cache(run, turn);
      if (!fields || turn !== this.turn) return;
      const checkpoint = checkpointOf(this.state, run.id);
      const field = await this.source.field(run.id, checkpoint, reference);
      if (turn !== this.turn) return;
      this.from = reference;
      this.state.update({ fields, field: { ...field, env_steps: steps }, renewing: null });
      this.time("milliseconds", turn, began);
      if (!field.exact && this.source.live) this.sharpen(turn, began, run.id, checkpoint, reference);
    } catch (error) {
      if (turn === this.turn || !(error instanceof Refused)) this.failed(error);
    } finally {
      if (turn === this.turn) this.asking = false;
    }
  }

  /** Once no other question follows, the field from the pose itself. */
  async sharpen(turn, began, run, checkpoint, reference) {
    await new Promise((resolve) => setTimeout(resolve, SETTLED));
    if (turn !== this.turn) return;
    const { steps } = this;
    try {
      const field = await this.source.field(run, checkpoint, reference, true);
      if (turn !== this.turn || !field.exact) return;
      this.state.update({ field: { ...field, env_steps: steps } });
      this.time("exactMilliseconds", turn, began);
    } catch (error) {
      if (turn === this.turn) complain(this.state, error); // the field of the nearest view stays
    }
  }

  /** Wait for the cache; null where there is none or the question is no longer asked. */
  async cache(run, turn) {
    const { key } = this;
    const checkpoint = checkpointOf(this.state, run.id);
    let { fields } = this.state.values;
    if (this.known !== key || fields?.state !== "ready") fields = await this.source.fields(run.id, checkpoint);
    if (fields.state === "absent") fields = { ...fields, ...(await this.source.makeFields(run.id, checkpoint)) };
    while (turn === this.turn) {
      if (fields.state === "ready") {
        this.known = key;
        return fields;
      }
      if (this.stays && fields.state !== "impossible") this.state.update({ renewing: fields });
      else this.state.update({ fields, field: null, renewing: null });
      if (fields.state === "impossible") return null;
      await new Promise((resolve) => setTimeout(resolve, WAIT));
      if (turn === this.turn) fields = await this.source.fields(run.id, checkpoint);
    }
    return null;
  }

  /** Note how long an answer took to the screen, unless another question was asked meanwhile. */
  time(figure, turn, began) {
    onScreen(() => {
      if (turn === this.turn) this[figure] = performance.now() - began;
    });
  }

  /** What is still an answer stays, such as the field of the checkpoint before. */
  failed(error) {
    this.known = null;
    this.state.update(this.stays ? { renewing: null } : { field: null });
    complain(this.state, error);
  }
}

/** When what was changed is on the screen: the next frame but one begins then. @param {() => void} tell */
function onScreen(tell) {
  requestAnimationFrame(() => requestAnimationFrame(tell));
}
