// What a page says about itself to people who do not see it, or do not use a mouse: every fault as a line of text.
() => {
  const faults = [];
  const all = (selector) => [...document.querySelectorAll(selector)];
  const say = (what, element) => faults.push(`${what}: ${element.outerHTML.slice(0, 120)}`);
  const named = (element) => (element.getAttribute("aria-label") || element.textContent).trim() !== "";

  const ids = all("[id]").map((element) => element.id);
  for (const id of ids.filter((id, index) => ids.indexOf(id) !== index)) faults.push(`id twice: ${id}`);
  for (const name of ["aria-labelledby", "aria-describedby", "aria-controls", "for"]) {
    for (const element of all(`[${name}]`)) {
      for (const id of element.getAttribute(name).split(" ")) if (!document.getElementById(id)) say(`no ${id}`, element);
    }
  }
  for (const link of all("a")) {
    if (!link.hash || !document.getElementById(link.hash.slice(1))) say("a link that leads nowhere", link);
  }
  for (const element of all("a, button, summary")) if (!named(element)) say("no name", element);
  for (const input of all("input")) if (![...input.labels].some(named)) say("no label", input);
  for (const svg of all("svg")) {
    if (svg.getAttribute("role") !== "img" || !svg.getAttribute("aria-label")) say("a figure without words", svg);
  }
  for (const table of all("table")) {
    if (!table.caption || !table.caption.textContent.trim()) say("no caption", table);
    if ([...table.tHead.rows[0].cells].some((cell) => cell.scope !== "col" || !named(cell))) say("headings", table);
  }
  const levels = all("h1, h2, h3, h4").map((head) => Number(head.tagName[1]));
  if (levels.filter((level) => level === 1).length !== 1) faults.push("not one h1");
  levels.forEach((level, i) => { if (i && level > levels[i - 1] + 1) faults.push(`h${level} after h${levels[i - 1]}`); });
  for (const mark of ["body > header", "main", "nav[aria-label]", "body > footer"]) {
    if (all(mark).length !== 1) faults.push(`${all(mark).length} of ${mark}`);
  }
  if (!document.documentElement.lang) faults.push("no language");

  // --- what can be pressed is large enough for a finger; nothing moves ---
  for (const element of all("button, summary, nav a, input")) {
    const { width, height } = element.getBoundingClientRect();
    if (width && (width < 24 || height < 20)) say(`${width} x ${height} pixels`, element);
  }
  for (const element of all("*")) {
    const { animationName, transitionDuration, scrollBehavior } = getComputedStyle(element);
    if (animationName !== "none" || transitionDuration !== "0s" || scrollBehavior !== "auto") say("moves", element);
  }

  // --- contrast of all that is written, against the nearest ground under it ---
  const color = (text) => text.match(/[\d.]+/g).map(Number);
  const light = ([red, green, blue]) => {
    const [r, g, b] = [red, green, blue].map((x) => x / 255).map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const found = color(getComputedStyle(one).backgroundColor);
      if (found.length < 4 || found[3] === 1) return found;
    }
    return [255, 255, 255];
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let texts = 0;
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility() || element.closest("script, title")) continue;
    const inside = element.closest("svg");
    if (inside && !element.outerHTML.split(">")[0].includes("var(")) continue; // written on a bar: a figure's own matter
    const style = getComputedStyle(element);
    const [a, b] = [inside ? style.fill : style.color].map(color).concat([ground(element)]).map(light);
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) say(`contrast ${ratio.toFixed(2)}`, element);
    texts += 1;
  }
  if (texts < 20) faults.push(`only ${texts} texts are visible`);
  return faults;
}
