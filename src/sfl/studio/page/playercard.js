/** One player: what it sees, what it values, what it believes and plans, at one step. */

import { kind } from "./colours.js";
import { el, fill, number } from "./dom.js";

/** How an episode ended, in words. */
const OUTCOMES = {
  reached: "arrived",
  believed: "takes itself to have arrived",
  timeout: "out of time",
  no_route: "found no route; out of time",
  broken: "broke off",
  stopped: "stopped",
};

export class PlayerCard {
  /** @param {any} player of a session @param {number} place its column */
  constructor(player, place) {
    this.player = player;
    this.eye = el("img", { class: "eye", alt: "What the agent sees", data: { testid: `view-${place}` } });
    this.outcome = el("p", { class: "outcome", data: { testid: `outcome-${place}` } }, "getting ready …");
    this.values = el("div", { class: "values", data: { testid: `values-${place}` } });
    this.facts = el("dl", { data: { testid: `facts-${place}` } });
    const title = el(
      "h3",
      {},
      el("i", { class: "swatch", style: `background:${kind(place)}` }),
      `${player.title}`,
      el("span", { class: "quiet" }, player.checkpoint === "last" ? "" : ` at ${number(Number(player.checkpoint))}`),
    );
    this.box = el(
      "article",
      { class: "card", data: { testid: `card-${place}` } },
      title,
      this.eye,
      this.outcome,
      this.values,
      this.facts,
    );
  }

  /** @param {number} playhead @param {string} unit of the map */
  show(playhead, unit) {
    const { begin, steps, end } = this.player;
    const now = steps[Math.min(playhead, steps.length - 1)];
    this.eye.hidden = !now?.picture;
    this.showOutcome(now, playhead);
    if (!now || (now === this.now && Boolean(end) === this.ended)) return;
    [this.now, this.ended] = [now, Boolean(end)];
    if (now.picture && this.eye.src !== now.picture) this.eye.src = now.picture;
    // The last step of an episode has no decision: the one before it stays.
    const place = steps.indexOf(now);
    this.showValues(now.action === null && place > 0 ? steps[place - 1] : now, begin?.actions ?? []);
    this.showFacts(now, unit);
  }

  showOutcome(now, playhead) {
    const { steps, end } = this.player;
    const over = end && playhead >= steps.length - 1;
    const before = now ? `step ${number(now.step)}` : "getting ready …";
    const after = over && `${OUTCOMES[end.outcome] ?? end.outcome} after ${number(end.steps)} steps`;
    this.outcome.textContent = over ? after : before;
    this.outcome.dataset.outcome = over ? end.outcome : "";
  }

  /** A bar for each action, from the lowest value to the highest; the chosen one stands out. */
  showValues(now, actions) {
    const { values } = now;
    if (!values?.length) {
      fill(
        this.values,
        ...(now.action === null ? [] : [el("p", { class: "quiet" }, `action: ${actions[now.action] ?? now.action}`)]),
      );
      return;
    }
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const rows = values.map((value, action) => {
      const share = high > low ? (value - low) / (high - low) : 1;
      return el("div", { class: action === now.action ? "bar chosen" : "bar" },
        el("span", {}, actions[action] ?? String(action)), el(
          "i",
          {},
          el("b", { style: `width:${Math.round(6 + 94 * share)}%` }),
        ), el("output", {}, value.toFixed(3)));
    });
    fill(this.values, el("p", { class: "quiet" }, now.values_name ?? "values of actions"), ...rows);
  }

  showFacts(now, unit) {
    const facts = [["believes", believed(now, unit)], ["walks to", target(now)], ["route", routeOf(now)]];
    fill(this.facts, ...facts.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]));
  }
}

function believed(now, unit) {
  if (now.localized === null || now.localized === undefined) return "not localized";
  if (now.off === null || now.off === undefined) return `landmark ${now.localized}`;
  return `landmark ${now.localized}, ${number(now.off)} ${now.off === 1 ? unit : `${unit}s`} off`;
}

/** Where it walks to. That it took a landmark of its route to be reached is another thing than being at the goal. */
function target({ target: to, passed, reached }) {
  if (to === null || to === undefined) return "none";
  if (reached && to === -1) return "the goal (reached)";
  const aim = to === -1 ? "the goal" : `landmark ${to}`;
  return passed === null || passed === undefined ? aim : `${aim}; takes landmark ${passed} to be reached`;
}

function routeOf(now) {
  const route = now.route ?? [];
  if (!route.length) return now.route_found === false ? "no route found" : "none";
  const place = route.indexOf(now.target);
  return `${place >= 0 ? `${place + 1} of ` : ""}${number(route.length)} waypoints`;
}
