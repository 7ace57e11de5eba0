/** Where things of the world lie on the screen: a scale and the place in the middle. */

export class View {
  constructor() {
    this.width = 1;
    this.height = 1;
    this.scale = 1; // screen pixels of one unit of the world
    this.x = 0; // of the world, in the middle of the screen
    this.y = 0;
    this.flip = 1; // 1: y grows down, as on the screen; -1: up
    this.bounds = [0, 0, 1, 1];
    this.foot = 0; // pixels at the bottom that something may lie over: all of the world is shown above them
  }

  /** @param {number} width @param {number} height */
  resize(width, height) {
    [this.width, this.height] = [width, height];
  }

  /** A new world. @param {number[]} bounds x0, y0, x1, y1 @param {boolean} yDown */
  show(bounds, yDown) {
    [this.bounds, this.flip] = [bounds, yDown ? 1 : -1];
    this.fit();
  }

  /** All of the world, with room around it for what lies on the map's corners. */
  fit() {
    const [x0, y0, x1, y1] = this.bounds;
    this.scale = this.fitting();
    [this.x, this.y] = [(x0 + x1) / 2, (y0 + y1) / 2 + (this.flip * this.foot) / 2 / this.scale];
  }

  fitting() {
    const [x0, y0, x1, y1] = this.bounds;
    const height = this.height - this.foot;
    const room = Math.min(32, 0.05 * Math.min(this.width, height));
    const across = (this.width - 2 * room) / Math.max(x1 - x0, 1e-9);
    return Math.max(1e-6, Math.min(across, (height - 2 * room) / Math.max(y1 - y0, 1e-9)));
  }

  left(x) {
    return this.width / 2 + (x - this.x) * this.scale;
  }

  top(y) {
    return this.height / 2 + (y - this.y) * this.scale * this.flip;
  }

  /** @param {number} left @param {number} top @returns {[number, number]} */
  world(left, top) {
    return [this.x + (left - this.width / 2) / this.scale, this.y + ((top - this.height / 2) / this.scale) * this.flip];
  }

  /** @param {number} right @param {number} down in pixels */
  pan(right, down) {
    this.x -= right / this.scale;
    this.y -= (down / this.scale) * this.flip;
    this.hold();
  }

  /** Zoom about a point of the screen, which stays where it is. */
  zoom(factor, left = this.width / 2, top = this.height / 2) {
    const [x, y] = this.world(left, top);
    const smallest = 0.4 * this.fitting();
    this.scale = Math.max(smallest, Math.min(120 * smallest, this.scale * factor));
    const [newX, newY] = this.world(left, top);
    this.x += x - newX;
    this.y += y - newY;
    this.hold();
  }

  /** Keep the middle of the screen within the world: nobody gets lost. */
  hold() {
    const [x0, y0, x1, y1] = this.bounds;
    this.x = Math.max(x0, Math.min(x1, this.x));
    this.y = Math.max(y0, Math.min(y1, this.y));
  }

  /** Bring a place into sight. */
  reveal(x, y, room = 48) {
    const right = Math.min(0, this.width - room - this.left(x)) + Math.max(0, room - this.left(x));
    const down = Math.min(0, this.height - this.foot - room - this.top(y)) + Math.max(0, room - this.top(y));
    if (right || down) this.pan(right, down);
  }

  /** A view of the same world that can be drawn into a larger picture. @param {number} margin pixels on each side */
  widened(margin) {
    const wide = Object.assign(new View(), this);
    wide.resize(this.width + 2 * margin, this.height + 2 * margin);
    return wide;
  }
}
